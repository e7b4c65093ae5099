"""What the documentation shows works: Python blocks run as printed, commands run and exist."""

import contextlib
import csv
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from docs_pages import PAGES, ROOT, blocks, commands, name_of

from taciturn.cli.main import commands as known_commands

README = ROOT / "README.md"
# the search of the conformance kit, twice
LONG = {ROOT / "docs" / "how-to" / "add-a-part.md"}
SEARCHED = tuple(ROOT / part / "src" for part in (".", "federation", "power", "papers"))
DOWNLOADED = ("mnist", "femnist", "w8a", "mushrooms", "ijcnn1", "cifar10")


def languages(page):
    return {block.language for block in blocks(page.read_text())}


def with_blocks(*wanted):
    return [pytest.param(page, id=name_of(page)) for page in PAGES if languages(page) & set(wanted)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of its own with the table of README.md, and those of docs/examples."""
    monkeypatch.chdir(tmp_path)
    # studies, sites, accounts and their heads
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for file in (ROOT / "docs" / "examples").iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    draw = random.Random(0)
    rows = [(draw.randint(20, 90), draw.choice("fm")) for _ in range(400)]
    for name, columns in (("patients.csv", ("age", "sex", "ill")), ("new.csv", ("age", "sex"))):
        with open(name, "w", newline="") as file:
            labelled = [(age, sex, "yes" if age > 55 else "no") for age, sex in rows]
            csv.writer(file).writerows([columns, *(row[: len(columns)] for row in labelled)])
    yield tmp_path
    for name in set(sys.modules) - before:  # modules that a page wrote
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(tmp_path):
            del sys.modules[name]


def in_order(page, *, shell):
    """Run the blocks of a page in their order; return the names that its Python defines."""
    names = {"__name__": "__main__"}
    for block in blocks(page.read_text()):
        if block.title:
            Path(block.title).write_text(block.code)
        if block.language == "python":
            padded = "\n" * (block.line - 1) + block.code
            exec(compile(padded, str(page), "exec"), names)
        elif block.language == "sh" and shell:
            in_shell(block.code, f"{name_of(page)}:{block.line}")
    return names


def in_shell(code, where):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    search = os.pathsep.join([os.environ.get("PYTHONPATH", ""), *map(str, SEARCHED)])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": path, "PYTHONPATH": search},
        check=False,
    )
    assert done.returncode == 0, f"{where}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def of_python_alone():
    """Return the pages whose Python the slow test below does not run, and README.md."""
    return [
        pytest.param(page, id=name_of(page), marks=pytest.mark.slow if page in LONG else ())
        for page in PAGES
        if "python" in languages(page) and (page == README or "sh" not in languages(page))
    ]


@pytest.mark.parametrize("page", of_python_alone())
def test_the_python_of_a_page_runs_as_printed(page, folder):
    with contextlib.redirect_stdout(None):
        in_order(page, shell=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", with_blocks("sh"))
def test_every_page_runs_from_top_to_bottom_with_its_commands(page, folder):
    words = {word for block in blocks(page.read_text()) for word in block.code.split()}
    if words & set(DOWNLOADED) and not os.environ.get("TACITURN_DATA_DIR"):
        pytest.skip("set TACITURN_DATA_DIR: the page uses data that are not bundled")
    with contextlib.redirect_stdout(None):
        in_order(page, shell=True)


def test_a_wrong_claim_on_a_page_is_caught(tmp_path):
    page = ROOT / "docs" / "planted.md"
    text = "# Page\n\n```python\nassert 1 + 1 == 3\n```\n"
    (block,) = blocks(text)
    with pytest.raises(AssertionError):
        exec(compile(block.code, str(page), "exec"), {})


def test_a_command_that_fails_is_caught():
    with pytest.raises(AssertionError, match="here:3"):
        in_shell("false", "here:3")


def options_of(command, rest):
    """Return every option that a call of the command line takes; None for no such command."""
    loaded = known_commands()[command].load()
    if isinstance(loaded, typer.Typer):
        found = typer.main.get_command(loaded).commands.get(rest[0])
        if found is None:
            return None
    else:
        application = typer.Typer()
        application.command()(loaded)
        found = typer.main.get_command(application)
    return {option for parameter in found.params for option in parameter.opts} | {"--help"}


def unknown(words):
    """Return the words of a call that no command or option of taciturn is called."""
    _, command, *rest = words
    if command.startswith("--"):
        return [] if command in {"--version", "--help"} else [command]
    if command not in known_commands():
        return [command]
    given = [word for word in rest if re.match(r"--[a-z]", word)]
    options = options_of(command, rest)
    return [f"{command} {rest[0]}"] if options is None else sorted(set(given) - options)


@pytest.mark.parametrize("page", with_blocks("sh", "console"))
def test_every_command_and_option_on_a_page_exists(page):
    shown = [b.code for b in blocks(page.read_text()) if b.language in {"sh", "console"}]
    calls = [words for code in shown for words in commands(code)]
    assert {" ".join(words): unknown(words) for words in calls if unknown(words)} == {}


def test_an_option_that_does_not_exist_is_caught():
    (words,) = commands("taciturn train adult --epsilon 1 \\\n    --secret 3 > out  # --not-this\n")
    assert unknown(words) == ["--secret"]
    assert unknown(["taciturn", "knit"]) == ["knit"]
    assert unknown(["taciturn", "study", "knit"]) == ["study knit"]
    assert unknown(["taciturn", "site", "join", "--rounds", "1"]) == ["--rounds"]


def test_the_readme_is_one_that_people_finish():
    assert len(README.read_bytes()) <= 8192


def test_the_readme_example_returns_what_it_says(folder, capsys):
    names = in_order(README, shell=False)
    owners, problem, result = names["owners"], names["problem"], names["result"]
    assert 3.9999 < result.certificate.epsilon <= 4.0
    signs = (owners.test_features @ result.model > 0) * 2 - 1
    assert names["wrong"] == pytest.approx((signs != owners.test_targets).mean())
    assert problem.model_shape(30) == result.model.shape
    assert "epsilon = 4.0000" in capsys.readouterr().out
