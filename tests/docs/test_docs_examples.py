"""Every Python block of the documentation runs as printed; its assertions are its checks."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def programs():
    """Return one entry per section with Python in it: (its name, its blocks in their lines)."""
    found = []
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("*.md")),
    ):
        text = path.read_text()
        for part in re.split(r"^(?=## )", text, flags=re.MULTILINE):
            before = text[: text.index(part)].count("\n")
            if BLOCK.search(part):
                found.append(pytest.param(padded(part, before), id=f"{path.stem}-{title(part)}"))
    return found


def padded(part, before):
    """Return the code of a section, each line at its line number in the document."""
    lines = [""] * (before + part.count("\n") + 1)
    for block in BLOCK.finditer(part):
        start = before + part[: block.start(1)].count("\n")
        code = block.group(1).splitlines()
        lines[start : start + len(code)] = code
    return "\n".join(lines) + "\n"


def title(part):
    return re.sub(r"[^a-z0-9]+", "-", part.split("\n", 1)[0].lower()).strip("-")


def executed(code, folder):
    script = folder / "example.py"
    script.write_text(code)
    return runpy.run_path(str(script))


@pytest.mark.parametrize("code", programs())
def test_every_example_runs_as_printed(code, tmp_path):
    executed(code, tmp_path)


def test_a_wrong_claim_in_an_example_is_caught(tmp_path):
    part = "## Section\n\n```python\nassert 1 + 1 == 3\n```\n"
    with pytest.raises(AssertionError):
        executed(padded(part, 0), tmp_path)


def test_the_readme_example_is_as_long_as_it_says(tmp_path, capsys):
    (code,) = (p.values[0] for p in programs() if p.id == "README-as-a-library")
    names = executed(code, tmp_path)
    done, part, problem = names["done"], names["part"], names["problem"]
    assert 3.9999 < done.certificate.epsilon <= 4.0
    truth = np.mean(np.sign(part.test_features @ done.model) != part.test_targets)
    assert names["wrong"] == pytest.approx(truth)
    assert problem.model_shape(30) == done.model.shape
    assert "epsilon = 4.0000" in capsys.readouterr().out
    statements = [line for line in code.splitlines() if line.strip() and "import" not in line]
    assert len(statements) <= 15
