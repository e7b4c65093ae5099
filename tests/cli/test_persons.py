"""Persons in tables through the command line: what is protected, what is said, and bad input."""

import json

import numpy as np
import pytest

PRIVATE = ("--epsilon", "1", "--delta", "1e-4", "--rounds", "3", "--no-centre")


BOUNDS = """
source = "public"
ignore = ["site", "who"]
[target]
name = "ill"
values = ["no", "yes"]
[columns.age]
min = 0.0
max = 100.0
"""


def write(path, rows):
    path.write_text("\n".join(["who,site,age,ill", *(",".join(map(str, row)) for row in rows)]))


@pytest.fixture
def table(tmp_path):
    """Return what is said of 40 persons with one to four rows, half of them at each site."""
    draw, rows = np.random.default_rng(0), []
    for person in range(40):
        for _ in range(1 + person % 4):
            age = float(draw.uniform(0, 100))
            ill = "yes" if age > 50 else "no"
            rows.append((f"zq{person}x", "ab"[person % 2], age, ill))
    draw.shuffle(rows)
    write(tmp_path / "t.csv", rows)
    (tmp_path / "b.toml").write_text(BOUNDS)
    return tmp_path, ("--target", "ill", "--bounds", tmp_path / "b.toml", *PRIVATE)


def test_a_person_is_protected_and_neither_named_nor_counted(table, taciturn_):
    folder, about = table
    persons = ("--person-column", "who", "--rows-per-person", 3)
    out = folder / "out"
    code, said, err = taciturn_(
        "train", folder / "t.csv", *about, *persons, "--agent-column", "site", "--out", out
    )
    assert code == 0, err
    assert "40 persons with up to 3 rows each, 2 agents" in said
    assert "unit person" in said
    assert "k times" not in said
    results = json.loads((out / "results.json").read_text())
    assert (results["persons"], results["rows_per_person"], results["unit"]) == (40, 3, "person")
    assert "records" not in results
    written = said + err + "".join(p.read_text("latin-1") for p in out.iterdir() if p.is_file())
    assert "zq" not in written
    assert "100 records" not in written  # how many rows there are
    code, said, _ = taciturn_("show", out / "model.json")
    assert code == 0
    assert "unit person" in said


BAD = {
    "no column": (("--rows-per-person", 3), "--person-column COL"),
    "no K": (("--person-column", "who"), "--rows-per-person K"),
    "another column": (("--person-column", "nobody", "--rows-per-person", 3), "no column 'nobody'"),
    "a column to learn from": (("--person-column", "age", "--rows-per-person", 3), "take it out"),
    "one column for both": (
        ("--person-column", "site", "--agent-column", "site", "--rows-per-person", 3),
        "agents and of persons",
    ),
    "too many agents": (
        ("--person-column", "who", "--rows-per-person", 3, "--agents", 41),
        "41 agents cannot share 40 persons",
    ),
    "M alone": (("--agents-per-person", 2), "agents-per-person"),
    "batches": (
        ("--person-column", "who", "--rows-per-person", 3, "--algorithm", "dp-sgd"),
        "all rows of a person",
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_input_about_persons_is_refused_in_one_line(bad, table, taciturn_):
    folder, about = table
    options, expected = BAD[bad]
    out = folder / "out"
    code, _, err = taciturn_("train", folder / "t.csv", *about, *options, "--out", out)
    assert code == 2
    assert expected in err
    assert err.count("\n") == 1
    assert "zq" not in err
    assert not out.exists()


def test_a_person_at_two_agents_is_refused_unless_that_is_said(table, taciturn_):
    folder, about = table
    rows = [(f"zq{k % 20}", "ab"[k // 20 % 2], 10 + k, "no") for k in range(40)]
    write(folder / "t.csv", rows)
    persons = ("--person-column", "who", "--rows-per-person", 1, "--agent-column", "site")
    code, _, err = taciturn_("train", folder / "t.csv", *about, *persons)
    assert code == 2
    assert "--agents-per-person" in err
    assert "zq" not in err
    code, said, err = taciturn_(
        "train", folder / "t.csv", *about, *persons, "--agents-per-person", 2, "--json"
    )
    assert code == 0, err
    certified = json.loads(said)
    assert certified["agents_per_person"] == 2
    assert certified["epsilon"] == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--persons", 40), "--rows-per-person"),
        (("--records", 40, "--rows-per-person", 2), "--persons"),
        (("--persons", 2, "--rows-per-person", 2, "--agents", 3), "share 2 persons"),
        (("--counts", "5,5", "--persons", 10, "--rows-per-person", 2), "leave"),
    ],
)
def test_plans_for_persons_that_make_no_sense_are_refused(options, expected, taciturn_):
    facts = ("--loss", "logistic", "--columns", 3, "--epsilon", 1, "--delta", "1e-6")
    code, _, err = taciturn_("plan", *facts, *options)
    assert code == 2
    assert expected in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_a_proposal_for_persons_at_several_sites_is_charged_across_them(
    table, taciturn_, monkeypatch
):
    """Planted fault: the cost of the dearest site, as if each person were at one."""
    folder, about = table
    monkeypatch.setenv("TACITURN_STATE_DIR", str(folder / "state"))
    rows = [(f"zq{k % 20}", "ab"[k // 20 % 2], 10 + k, "no" if k % 3 else "yes") for k in range(40)]
    write(folder / "t.csv", rows)
    where = ("--account", "p", "--accounts", folder / "accounts")
    budget = ("--epsilon", 2, "--delta", "1e-3", "--accounts", folder / "accounts")
    assert taciturn_("budget", "open", "p", *budget, "--unit", "person")[0] == 0
    assert taciturn_("budget", "open", "r", *budget)[0] == 0
    persons = ("--person-column", "who", "--rows-per-person", 2, "--agent-column", "site")
    out = folder / "out"
    code, _, err = taciturn_(
        *("train", folder / "t.csv", *about, *persons, "--agents-per-person", 2, *where),
        *("--out", out, "--quiet"),
    )
    assert code == 0, err
    once = json.loads((out / "results.json").read_text())
    assert once["account"]["after"]["charged"]["mu"] == pytest.approx(once["mu"], rel=1e-6)
    # the same again by its proposal, in two ways that are refused and one that is not
    again = ("train", folder / "t.csv", "--proposal", out / "proposal.json", *where, "--quiet")
    who = ("--person-column", "who", "--agent-column", "site")
    refused = [
        ((*again, "--agent-column", "site"), "--person-column"),
        ((*again[:5], "r", *again[6:], *who), "charged to account 'p'"),
        (
            (*again[:5], "r", *again[6:], *who, "--another-account"),
            "one person and the account one record",
        ),
        ((*again, "--person-column", "site", "--agent-column", "who"), "agents"),
    ]
    for command, expected in refused:
        code, _, err = taciturn_(*command)
        # a warning of the noise, known before anything is read, precedes the error
        errors = [line for line in err.splitlines() if "warning: the excess risk" not in line]
        assert (code, len(errors)) == (2, 1), err
        assert expected in err
        assert "zq" not in err
    code, said, _ = taciturn_("budget", "show", "p", "--json", "--accounts", folder / "accounts")
    assert len(json.loads(said)["runs"]) == 1
    code, _, err = taciturn_(*again, *who, "--out", folder / "second")
    assert code == 0, err
    twice = json.loads((folder / "second" / "results.json").read_text())
    assert (once["plan"], once["proposal"]) == (twice["plan"], twice["proposal"])
    both = twice["account"]["after"]["charged"]["mu"]
    assert both == pytest.approx(np.sqrt(2) * once["mu"], rel=1e-6)


def test_a_row_without_a_person_is_refused(table, taciturn_):
    folder, about = table
    write(folder / "t.csv", [("zq1", "a", 5, "no"), (" ", "a", 7, "yes")])
    persons = ("--person-column", "who", "--rows-per-person", 3, "--agents", 1)
    code, _, err = taciturn_("train", folder / "t.csv", *about, *persons)
    assert code == 2
    assert "row 2 is empty" in err
    assert err.count("\n") == 1
