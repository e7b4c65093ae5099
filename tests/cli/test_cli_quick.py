"""A quick start: what is imported, what is kept between runs, and what must not be kept."""

import os
import re
import stat
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from tacit.cli.early import check_early
from tacit.errors import InputError
from tacit.models import load_model
from tacit.tables import Source, read_bounds, read_files

BOUNDS = """source = "public"
[target]
name = "ill"
values = ["no", "yes"]
[columns]
x0 = { min = -4.0, max = 4.0 }
x1 = { min = -4.0, max = 4.0 }
x2 = { min = -4.0, max = 4.0 }
"""
TRAIN = ("train", "t.csv", "--target", "ill", "--bounds", "b.toml", "--epsilon", "1", "--delta")
TRAIN = (*TRAIN, "1e-3", "--agents", "3", "--rounds", "20")


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


def tacit(folder, *arguments, code="from tacit.cli.main import main; raise SystemExit(main())"):
    """Run a command in a process of its own, whose programs are kept below `folder`."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    environment |= {"TACIT_PROGRAMS_DIR": str(folder / "programs"), "MPLBACKEND": "svg"}
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
from tacit.cli.programs import keep_programs
keep_programs()
import jax, jax.numpy as jnp, numpy as np
rows = np.loadtxt("t.csv", delimiter=",", skiprows=1, usecols=(0, 1, 2)) / 4.0
print(float(jax.jit(lambda w: jnp.sum(jnp.tanh(rows @ w)))(jnp.ones(3))))
"""


@pytest.mark.slow
def test_programs_are_kept_and_none_holds_a_record(tmp_path):
    values = records(tmp_path)
    first = tacit(tmp_path, *TRAIN, "--out", "first")
    assert first.returncode == 0, first.stderr
    after_first = {file.name for file in kept(tmp_path)}
    assert 3 <= len(after_first) <= 8  # none for what NumPy does as well
    again = tacit(tmp_path, *TRAIN, "--out", "again")
    assert again.returncode == 0, again.stderr
    assert {file.name for file in kept(tmp_path)} == after_first  # whose keys, and noise, differ
    assert tacit(tmp_path, "predict", "again/model.json", "t.csv").returncode == 0
    assert not any(holds(kept(tmp_path), row) for row in values)
    assert tacit(tmp_path, code=LEAK).returncode == 0  # a function that closes over the rows
    assert any(holds(kept(tmp_path), row) for row in values)


ROADS = (
    ("--reference", "--oracle-metrics"),
    ("--observer", "sum", "--evaluate", "0.2"),
    ("--network", "ring", "--algorithm", "nids"),
    ("--network", "ring", "--algorithm", "recal"),
    ("--algorithm", "dp-sgd"),
    ("--algorithm", "dp-admm", "--centre"),
    ("--structure", "lasso", "--algorithm", "sadmm"),
    ("--processes", "3"),
)
AUDITS = tuple(("audit", method, "--runs", "20", "--seed") for method in ("dvp", "dp-sgd"))


@pytest.mark.slow
def test_other_records_of_one_shape_need_no_other_program(tmp_path):
    """A program is named by all that is in it, constants included: none follows from a record."""
    records(tmp_path)
    for road in ROADS:
        done = tacit(tmp_path, *TRAIN, *road, "--out", "one", "--force")
        assert done.returncode == 0, done.stderr
    assert tacit(tmp_path, "predict", "one/model.json", "t.csv").returncode == 0
    for audit in AUDITS:  # whose records follow from the seed
        tacit(tmp_path, *audit, "5")
    assert tacit(tmp_path, code=LEAK).returncode == 0
    names = {file.name for file in kept(tmp_path)}
    assert len(names) > 20
    assert len(list((tmp_path / "programs").iterdir())) == 1  # no process leaves its own folder
    records(tmp_path, seed=6)
    for road in ROADS:
        assert tacit(tmp_path, *TRAIN, *road, "--out", "one", "--force").returncode == 0
    assert tacit(tmp_path, "predict", "one/model.json", "t.csv").returncode == 0
    for audit in AUDITS:
        assert tacit(tmp_path, *audit, "6").returncode == 0
    assert {file.name for file in kept(tmp_path)} == names
    assert tacit(tmp_path, code=LEAK).returncode == 0  # planted: it closes over the rows
    assert {file.name for file in kept(tmp_path)} > names


@pytest.mark.slow
@pytest.mark.parametrize("spoilt", ["open to others", "a file", "cut short"])
def test_a_folder_that_cannot_be_trusted_or_a_file_cut_short_hurts_no_run(tmp_path, spoilt):
    records(tmp_path)
    place = tmp_path / "programs"
    if spoilt == "a file":
        place.write_text("")
    else:
        place.mkdir()
        place.chmod(0o777 if spoilt == "open to others" else 0o700)
    done = [tacit(tmp_path, *TRAIN, "--out", "one")]
    if spoilt == "cut short":
        for file in kept(tmp_path)[::2]:
            file.write_bytes(b"")
        done.append(tacit(tmp_path, *TRAIN, "--out", "two"))
    else:
        assert spoilt == "a file" or not kept(tmp_path)
    for one in done:
        assert one.returncode == 0, one.stderr
        assert "rror" not in one.stderr


def test_programs_are_kept_in_a_private_folder_each_process_in_its_own(tmp_path):
    code = (
        "import os, sys; from tacit.cli.programs import keep_programs; keep_programs();"
        "own = os.environ['JAX_COMPILATION_CACHE_DIR']; print(own);"
        "import zlib; program = zlib.compress(bytes(99));"
        "open(own + '/whole', 'wb').write(program); open(own + '/half', 'wb').write(program[:9]);"
        "open(own + '/empty', 'w').close();"
        "sys.argv[1:] and os._exit(9)"
    )
    killed = tacit(tmp_path, "killed", code=code).stdout.strip()
    own = tacit(tmp_path, code=code).stdout.strip()
    assert own != killed
    assert Path(killed).exists()  # swept away after a day
    assert not Path(own).exists()
    shared = [file for file in kept(tmp_path) if "running-" not in str(file)]
    assert [file.stem for file in shared] == ["whole"]
    assert stat.S_IMODE(shared[0].parent.stat().st_mode) == 0o700


FIND = """
import os
from tacit.cli.programs import keep_programs
keep_programs()
own = os.environ.get("JAX_COMPILATION_CACHE_DIR")
print(sorted(os.listdir(own)) if own else None)
"""


def test_a_folder_of_the_users_own_loses_nothing_that_tacit_did_not_make(tmp_path):
    place = tmp_path / "programs"
    theirs = ("thesis/data", "0123456789abcdef", "running-shoes", "tacit-programs")
    ours = ("tacit-programs-0123456789abcdef", "tacit-running-abcdefgh")
    (tmp_path / "elsewhere").mkdir()
    for name in (*theirs, *ours):
        (place / name).mkdir(parents=True)
        (place / name / "x").write_text("precious")
    (place / "tacit-running-link").symlink_to(tmp_path / "elsewhere")
    (place / "dangling").symlink_to(tmp_path / "nowhere")
    for one in place.iterdir():
        os.utime(one, (0, 0), follow_symlinks=False)
    assert tacit(tmp_path, code=FIND).stdout == "[]\n"
    assert all((place / name / "x").exists() for name in theirs)
    assert not any((place / name).exists() for name in ours)
    assert (tmp_path / "elsewhere").exists()
    assert (place / "dangling").is_symlink()


def test_programs_are_kept_whatever_others_may_do_with_new_files_as_a_rule(tmp_path):
    umask = "import os; os.umask(0o002)\n"
    place = "os.environ['TACIT_PROGRAMS_DIR'] += '/deep/below'\n"
    assert tacit(tmp_path, code=umask + place + FIND).stdout == "[]\n"
    below = tmp_path / "programs" / "deep" / "below"
    assert {stat.S_IMODE(one.stat().st_mode) for one in (below, *below.iterdir())} == {0o700}


def test_a_kept_file_that_was_spoilt_is_removed_and_the_others_are_found(tmp_path):
    write = (
        "import zlib; [open(f'{own}/{n}', 'wb').write(zlib.compress(bytes(999))) for n in 'abc']"
    )
    tacit(tmp_path, code=FIND + write)
    first, *_ = sorted(kept(tmp_path))
    first.write_bytes(first.read_bytes()[:5])
    assert tacit(tmp_path, code=FIND).stdout == "['b', 'c']\n"
    assert sorted(file.stem for file in kept(tmp_path)) == ["b", "c"]


@pytest.mark.parametrize("fault", ["no links", "no home", "another setting"])
def test_a_system_without_links_or_a_home_and_a_user_with_a_cache_of_his_own_are_served(
    tmp_path, fault
):
    write = "import zlib; own and open(own + '/a', 'wb').write(zlib.compress(bytes(999)))"
    tacit(tmp_path, code=FIND + write)
    spoilt = {
        "no links": "import os\ndef no(*_): raise PermissionError(1, 'x')\nos.link = no",
        "no home": (
            "import os, pathlib\nos.environ.pop('TACIT_PROGRAMS_DIR')\n"
            "os.environ.pop('XDG_CACHE_HOME', None)\n"
            "def no(*_): raise RuntimeError('Could not determine home directory.')\n"
            "pathlib.Path.home = no"
        ),
        "another setting": "import os; os.environ['JAX_COMPILATION_CACHE_MAX_SIZE'] = '9'",
    }[fault]
    found = {"no links": "['a']", "no home": "None", "another setting": "None"}[fault]
    done = tacit(tmp_path, code=f"{spoilt}\n{FIND}")
    assert (done.stdout, done.stderr) == (f"{found}\n", "")
    assert [file.stem for file in kept(tmp_path)] == ["a"]


HEAVY = ("jax", "pandas", "scipy", "matplotlib")


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], HEAVY),
        (["train", "t.csv", "--target", "ill", "--epsilon", "1"], HEAVY),
        pytest.param(
            ["cost", "--help"],
            ("pandas", "matplotlib", "scipy.optimize", "dp_accounting"),
            marks=pytest.mark.slow,
        ),
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
        "import sys; from tacit.cli.main import main; main(sys.argv[1:]);"
        f"print([name for name in {absent!r} if name in sys.modules], file=sys.stderr)"
    )
    ended = tacit(tmp_path, *arguments, code=code)
    assert ended.stderr.splitlines()[-1] == "[]", ended.stderr


def test_early_errors_have_the_words_of_the_late_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    records(tmp_path)
    late = {
        ("train", "t.csv", "--target", "ill"): lambda: read_files(
            Source(path=Path("t.csv"), target="ill", bounds=None)
        ),
        ("train", "t.csv", "--bounds", "no.toml"): lambda: read_bounds(Path("no.toml")),
        ("predict", "no.json", "t.csv"): lambda: load_model(Path("no.json")),
    }
    for arguments, work in late.items():
        with pytest.raises(InputError) as told_late:
            work()
        with pytest.raises(InputError, match=re.escape(str(told_late.value))):
            check_early(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["train"], ["train", "adult"], ["train", "t.csv"], ["train", "--target", "ill"],
        ["train", "t.csv", "--target", "ill", "--proposal", "p.json"],
        ["train", "t.csv", "--target", "ill", "--bounds=b.toml"], ["train", "t.csv", "--help"],
        ["predict", "--help"], ["predict", ""], ["predict", "a\0b"], ["plan", "--bounds", ""],
    ],
)  # fmt: skip
def test_what_is_not_understood_early_passes(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    records(tmp_path)
    check_early(arguments)
