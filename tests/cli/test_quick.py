"""A quick start: what is imported, what is kept between runs, and what must not be kept."""

import os
import stat
import subprocess
import sys
import zlib

import numpy as np
import pytest

BOUNDS = """source = "public"
[target]
name = "ill"
values = ["no", "yes"]
[columns]
x0 = { min = -4.0, max = 4.0 }
x1 = { min = -4.0, max = 4.0 }
x2 = { min = -4.0, max = 4.0 }
"""
TRAIN = "train t.csv --target ill --bounds b.toml --epsilon 1 --delta 1e-3 --agents 3 --rounds 5"


def records(folder, rows=60, seed=5):
    draw = np.random.default_rng(seed)
    values = draw.uniform(-4, 4, (rows, 3))
    labels = np.where(values[:, 0] > 0, "yes", "no")
    lines = [
        ",".join([*(repr(float(v)) for v in row), y]) for row, y in zip(values, labels, strict=True)
    ]
    (folder / "t.csv").write_text("\n".join(["x0,x1,x2,ill", *lines]) + "\n")
    (folder / "b.toml").write_text(BOUNDS)
    return values


def taciturn(
    folder, *arguments, code="from taciturn.cli.main import main; raise SystemExit(main())"
):
    """Run a command in a process of its own, whose programs are kept below `folder`."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    environment |= {"TACITURN_PROGRAMS_DIR": str(folder / "programs"), "MPLBACKEND": "svg"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def kept(folder):
    return [one for one in (folder / "programs").rglob("*") if one.is_file()]


def contents(file):
    """The bytes of a kept program, which JAX compresses with what there is."""
    data = file.read_bytes()
    if data[:4] == bytes.fromhex("28b52ffd"):
        return pytest.importorskip("zstandard").ZstdDecompressor().decompress(data)
    return zlib.decompress(data)


def holds(files, values):
    """Whether a row of numbers stands in any of the files, in either precision or as text."""
    scaled = values / 4.0
    forms = [one.astype(kind).tobytes() for one in (values, scaled) for kind in ("<f8", "<f4")]
    forms += [repr(float(values[0])).encode(), repr(float(scaled[0])).encode()]
    return [file.name for file in files if any(form in contents(file) for form in forms)]


LEAK = """
import sys
from taciturn.cli.main import keep_programs
keep_programs()
import jax, jax.numpy as jnp, numpy as np
rows = np.loadtxt("t.csv", delimiter=",", skiprows=1, usecols=(0, 1, 2)) / 4.0
print(float(jax.jit(lambda w: jnp.sum(jnp.tanh(rows @ w)))(jnp.ones(3))))
"""


ROADS = (
    "--reference --oracle-metrics --observer sum --evaluate 0.2",
    "--network ring --algorithm recal",
    "--algorithm dp-sgd",
    "--algorithm dp-admm --centre",
    "--structure lasso --algorithm sadmm",
)
EACH = """
import sys
from taciturn.cli.main import main
for command in sys.argv[1:]:
    assert main(command.split()) == 0, command
"""


def on_every_road(folder, seed):
    """Train in each of some ways, predict and audit, all on other records for another seed."""
    values = records(folder, seed=seed)
    commands = [f"{TRAIN} {road} --out one --force" for road in ROADS]
    # the records of an audit follow from its seed
    commands += ["predict one/model.json t.csv", f"audit dp-sgd --runs 20 --seed {seed}"]
    done = taciturn(folder, *commands, code=EACH)
    assert done.returncode == 0, done.stderr
    return values


@pytest.mark.slow
def test_other_records_of_one_shape_need_no_other_program_and_none_holds_a_record(tmp_path):
    """A program is named by all that is in it, constants included: none follows from a record."""
    on_every_road(tmp_path, 5)
    names = {file.name for file in kept(tmp_path)}
    assert len(names) > 20
    assert len(list((tmp_path / "programs").iterdir())) == 1  # no process leaves its own folder
    values = on_every_road(tmp_path, 6)
    assert {file.name for file in kept(tmp_path)} == names
    assert not any(holds(kept(tmp_path), row) for row in values)
    assert taciturn(tmp_path, code=LEAK).returncode == 0  # planted: it closes over the rows
    assert {file.name for file in kept(tmp_path)} > names
    assert any(holds(kept(tmp_path), row) for row in values)
    for file in kept(tmp_path)[::2]:  # cut short, which hurts no run
        file.write_bytes(b"")
    done = taciturn(tmp_path, *f"{TRAIN} --out two".split())
    assert (done.returncode, "rror" in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize("spoilt", ["open to others", "a file"])
def test_in_a_folder_that_cannot_be_trusted_nothing_is_kept(tmp_path, spoilt):
    place = tmp_path / "programs"
    if spoilt == "a file":
        place.write_text("")
    else:
        place.mkdir()
        place.chmod(0o777)
    done = taciturn(tmp_path, code=FIND)
    assert (done.returncode, done.stdout, done.stderr) == (0, "None\n", "")


HEAVY = ("jax", "pandas", "scipy", "matplotlib", "sklearn", "dp_accounting", "equinox")


FIND = """
import os
from taciturn.cli.main import keep_programs
keep_programs()
own = os.environ.get("JAX_COMPILATION_CACHE_DIR")
print(sorted(os.listdir(own)) if own else None)
"""


def test_programs_are_kept_in_a_private_folder_whatever_a_umask_says(tmp_path):
    umask = "import os; os.umask(0o002)\n"
    place = "os.environ['TACITURN_PROGRAMS_DIR'] += '/deep/below'\n"
    assert taciturn(tmp_path, code=umask + place + FIND).stdout == "[]\n"
    below = tmp_path / "programs" / "deep" / "below"
    assert {stat.S_IMODE(one.stat().st_mode) for one in (below, *below.iterdir())} == {0o700}


def test_a_folder_of_the_users_own_loses_nothing_that_taciturn_did_not_make(tmp_path):
    place = tmp_path / "programs"
    (place / "thesis").mkdir(parents=True)
    (place / "thesis" / "x").write_text("precious")
    (place / "dangling").symlink_to(tmp_path / "nowhere")
    place.chmod(0o700)
    write = "open(own + '/old', 'w').close(); open(own + '/new', 'w').close();"
    write += "os.utime(own + '/old', (0, 0))"
    taciturn(tmp_path, code=FIND + write)
    for one in place.iterdir():
        os.utime(one, (0, 0), follow_symlinks=False)
    assert taciturn(tmp_path, code=FIND).stdout == "['new']\n"  # after a month
    assert (place / "thesis" / "x").exists()
    assert (place / "dangling").is_symlink()


@pytest.mark.parametrize("fault", ["no home", "another setting"])
def test_without_a_home_or_with_a_cache_of_the_users_own_nothing_is_kept(tmp_path, fault):
    spoilt = {
        "no home": (
            "import os, pathlib\nos.environ.pop('TACITURN_PROGRAMS_DIR')\n"
            "os.environ.pop('XDG_CACHE_HOME', None)\n"
            "def no(*_): raise RuntimeError('Could not determine home directory.')\n"
            "pathlib.Path.home = no"
        ),
        "another setting": "import os; os.environ['JAX_COMPILATION_CACHE_MAX_SIZE'] = '9'",
    }[fault]
    done = taciturn(tmp_path, code=f"{spoilt}\n{FIND}")
    assert (done.stdout, done.stderr) == ("None\n", "")
    assert not kept(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], HEAVY),
        pytest.param(
            ["predict", "--help"],
            ("matplotlib", "scipy.stats", "dp_accounting", "sklearn"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_a_command_does_not_need_is_not_imported(tmp_path, arguments, absent):
    records(tmp_path)
    code = (
        "import sys; from taciturn.cli.main import main; main(sys.argv[1:]);"
        f"print([name for name in {absent!r} if name in sys.modules], file=sys.stderr)"
    )
    ended = taciturn(tmp_path, *arguments, code=code)
    assert ended.stderr.splitlines()[-1] == "[]", ended.stderr
