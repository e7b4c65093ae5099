"""Careless, hostile and generated input: a result, or one line that says what to do."""

import json
import re
import shutil
import tempfile
from collections import Counter
from importlib import import_module

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cli.conftest import BOUNDS, FIELDS, error_in, patients, table_in, training, write
from tests.cli.messy_tables import SECRET, messy_table

from taciturn.cli.main import main
from taciturn.errors import InputError
from taciturn.report import check_out

BUDGET = ["--epsilon", "2", "--delta", "1e-6", "--rounds", "1", "--agents", "1", "--quiet"]


@pytest.fixture
def small(tmp_path):
    return table_in(tmp_path)


# a message says what to do after a semicolon or a colon
CURE = re.compile(r"[;:] (?:drop|add|save|mend|leave|state|list|is the file|there m|name|give)")


# what files hold is refused by the tests of tables: here, one fault of each kind of file
DAMAGE = {
    "cut short": (lambda f: (f / "t.csv").write_text("age,town,ill\n30,a,no\n40,b"), "cut short"),
    "not text": (lambda f: (f / "t.csv").write_bytes(b"\xff\xfe\x00"), "UTF-8"),
    "no file": (lambda f: (f / "t.csv").unlink(), "cannot be read"),
    "unknown category": (
        lambda f: (f / "t.csv").write_text("age,town,ill\n30,z,no\n40,b,yes\n"), "'town', row 1",
    ),
    "no target column": (
        lambda f: (f / "t.csv").write_text("age,town\n30,a\n40,b\n"), "no column 'ill'",
    ),
    "no bounds file": (lambda f: (f / "b.toml").unlink(), "cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_bad_files_are_one_line_and_nothing_is_written(refused, small, name):
    damage, words = DAMAGE[name]
    damage(small)
    before = sorted(small.rglob("*"))
    assert words in refused(*training(small, "--agents", "2", "--out", small / "out"))
    assert sorted(small.rglob("*")) == before


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        ("t.csv", ["--target", "income"], "use one name in both"),
        ("t.csv", ["--loss", "multinomial"], "logistic, hinge:H"),
        ("t.csv", ["--regulariser", "l2:1e308"], "single precision"),
        ("t.csv", ["--constraint", "ball:-1"], "above 0"),
        ("t.csv", ["--agents", "41"], "at most 40"),
        ("t.csv", ["--algorithm", "dp-sgd", "--sampling-rate", "1e-300"], "1e-09"),
        ("t.csv", ["--agent-column", "clinic"], "no column 'clinic'"),
        ("t.csv", ["--agent-column", "town"], "column to learn from"),
        ("clinics.csv", ["--agent-column", "clinic", "--agents", "3"], "leave --agents out"),
        ("clinics.csv", [], "nothing is known of the column 'clinic'"),
        ("agents", ["--agents", "3"], "leave --agents out"),
        ("agents", ["--test", "agents/a.csv"], "is trained on"),
        ("t.csv", ["--test", "t.csv"], "is trained on"),
        ("t.csv", ["--test", "link.csv"], "is trained on"),
        ("t.csv", ["--test", "nowhere.csv"], "nowhere.csv"),
        ("t.csv", ["--reference"], "--oracle-metrics"),
        ("x" * 300 + ".csv", [], "cannot be read"),
    ],
)
def test_bad_options_are_one_line_and_nothing_is_written(refused, small, data, options, words):
    write(small / "clinics.csv", [*FIELDS, "clinic"], patients())
    (small / "agents").mkdir()
    shutil.copy(small / "t.csv", small / "agents" / "a.csv")
    (small / "link.csv").symlink_to(small / "t.csv")
    options = [small / word if word.endswith(".csv") else word for word in options]
    before = sorted(small.rglob("*"))
    assert words in refused(*training(small, *options, "--out", small / "out", data=data))
    assert sorted(small.rglob("*")) == before


def test_what_is_missing_is_said_with_the_command_that_helps(refused, small):
    plain = ["train", small / "t.csv", "--epsilon", "1", "--delta", "1e-6"]
    assert "--target COL" in refused(*plain)
    line = refused(*plain, "--target", "ill")
    assert f"taciturn bounds {small / 't.csv'} --target ill > bounds.toml" in line
    assert "--oracle-metrics" in refused(*training(small, "--oracle-metrics"))
    assert "--target" in refused("train", "digits", *plain[2:], "--target", "x")
    assert "results" in refused(
        "train", "breast_cancer", *plain[2:], "--oracle-metrics", "--out", small / "o"
    )


@pytest.mark.parametrize("option", ["--out", "--bounds", "--test"])
@pytest.mark.parametrize(("text", "words"), [("", "it is empty"), ("\udcff", "UTF-8"), ("\0", "")])
def test_a_path_that_names_nothing_is_refused(small, refused, option, text, words):
    line = refused(*training(small, option, text, "--force"))
    assert words in line
    assert option in line


def test_empty_data_is_not_the_current_folder(small, refused, monkeypatch):
    monkeypatch.chdir(small)
    assert "it is empty" in refused("train", "", *training(small)[2:])
    assert "it is empty" in refused("bounds", "", "--target", "ill")


def test_a_place_that_cannot_be_written_to_is_noticed_before_training(small, refused, monkeypatch):
    # permissions alone do not say so: the file system may be read-only
    def refuse(*args, **kwargs):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    assert "Read-only file system" in refused(*training(small, "--out", small / "new"))
    monkeypatch.undo()
    check_out(small / "new", force=False)
    assert not (small / "new").exists()


@pytest.mark.parametrize("name", ["t.xlsx", "deep/Sheet.Ods"])
@pytest.mark.parametrize("there", [True, False])
def test_a_spreadsheet_is_told_to_be_saved_as_csv_or_parquet(
    report, refused, tmp_path, name, there
):
    file = tmp_path / name
    if there:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"PK\x03\x04")
    budget = ["--epsilon", "1", "--delta", "1e-6"]
    for command in (
        ["train", file, *budget],
        ["plan", file.name, *budget],
        ["bounds", file, "--target", "y"],
        ["predict", report / "out" / "model.json", file],
    ):
        line = refused(*command)
        assert "save its sheet as CSV or Parquet" in line
        assert "no data set" not in line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--target", "income"], "no column 'income'"),
        (["--target", "ill", "--ignore", "income"], "no column 'income'"),
        (["--target", "ill", "--ignore", "ill"], "cannot be ignored"),
        ([], "--target"),
    ],
)
def test_bad_requests_for_bounds_are_refused(refused, small, options, words):
    assert words in refused("bounds", small / "t.csv", *options)


def test_predicting_other_columns_or_from_a_damaged_model_is_refused(refused, report, tmp_path):
    model = report / "out" / "model.json"
    table, cut, out = tmp_path / "t.csv", tmp_path / "cut.json", tmp_path / "p.csv"
    cut.write_text(model.read_text()[:200])
    write(table, ["age", "village"], [["30", "a"]])
    assert "no column 'town'" in refused("predict", model, table, "--out", out)
    write(table, ["age", "town"], [["30", "a"]])
    assert "cut short" in refused("predict", cut, table, "--out", out)
    assert "cut short" in refused("show", cut)
    assert "cannot be read" in refused("show", tmp_path / "none.json")
    assert not out.exists()


GARBAGE = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")),
    st.sampled_from([b"", b"age", b"age,town,ill", b"age,town,ill\n30,a", b'"', b"\x00,\n"]),
    st.lists(
        st.sampled_from(["30,a,no", "x,a,yes", ",a,no", "inf,b,yes", "30,z,no", "30,a", "1,a,?"]),
        min_size=1, max_size=4,
    ).map(lambda rows: ("age,town,ill\n" + "\n".join([*rows, "nan,a,no"])).encode()),
)  # fmt: skip


BAD_BOUNDS = st.one_of(
    st.binary(max_size=60).map(lambda garbage: b"source = 1\n" + garbage),
    st.sampled_from(
        [
            ("min = 20", "min = 70"),
            ("min = 20", "min = nan"),
            ("min = 20", "min = []"),
            ("[columns.town]", "[columns.age]"),
            ("[columns.town]", "[columns.city]"),
            ('"public"', '"private"'),
            ('["no", "yes"]', '["no"]'),
            ('["a", "b"]', "[[]]"),
            ('["a", "b"]', '["a"]'),
            ("[target]", "[goal]"),
            ("max = 70", ""),
        ]
    ).map(lambda pair: BOUNDS.replace(*pair).encode()),
)


NUMBERS = st.sampled_from(["0", "-1", "nan", "-inf", "x", "", "1e999x"])


BAD_OPTIONS = st.one_of(
    st.tuples(
        st.sampled_from(
            ["--epsilon", "--delta", "--agents", "--rounds", "--clip", "--regulariser",
             "--constraint", "--loss", "--observer", "--relation", "--algorithm"]
        ),
        NUMBERS,
    ),
    st.tuples(
        st.sampled_from(["--target", "--agent-column", "--test"]), st.text("xyz/", min_size=1)
    ),
    st.tuples(st.text("-abcxyz", min_size=3).map(lambda text: "--zz" + text)),
)  # fmt: skip


BAD = st.one_of(
    st.tuples(st.just("t.csv"), GARBAGE),
    st.tuples(st.just("b.toml"), BAD_BOUNDS),
    st.tuples(st.just("options"), BAD_OPTIONS),
)


@pytest.mark.slow
@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(bad=BAD)
def test_generated_bad_input_never_shows_a_traceback_or_writes(small, capsys, bad):
    write(small / "t.csv", FIELDS, [row[:3] for row in patients()])
    (small / "b.toml").write_text(BOUNDS)
    where, what = bad
    if where != "options":
        (small / where).write_bytes(what)
    options = list(what) if where == "options" else []
    before = sorted(small.rglob("*"))
    arguments = [*training(small, "--out", small / "out"), *options]
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert code == 2, (bad, captured)
    assert captured.out == ""
    error_in(captured.err)
    assert sorted(small.rglob("*")) == before


@settings(
    max_examples=20,  # of four commands each
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data(), garbage=GARBAGE)
def test_the_other_commands_never_show_a_traceback_either(report, tmp_path, capsys, data, garbage):
    model = report / "out" / "model.json"
    text = model.read_text()
    cut = data.draw(st.integers(0, len(text) - 2))
    width = data.draw(st.integers(0, 5))
    damaged = text[:cut] + data.draw(st.text('0a"{]-.', max_size=3)) + text[cut + width :]
    (tmp_path / "m.json").write_text(damaged)
    (tmp_path / "t.csv").write_bytes(garbage)
    for arguments in (
        ["show", tmp_path / "m.json"],
        ["predict", tmp_path / "m.json", tmp_path / "t.csv"],
        ["predict", model, tmp_path / "t.csv"],
        ["bounds", tmp_path / "t.csv", "--target", "ill"],
    ):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert code in (0, 2)
        assert (code == 0) == (captured.out != "")
        assert captured.err.count("\n") == 1 or (code == 0 and not captured.err)


def hostile(report, folder, change):
    values = json.loads((report / "out" / "model.json").read_text())
    change(values)
    path = folder / "m.json"
    path.write_text(json.dumps(values))
    return path


def three_labels(values):
    values["labels"] = values["preprocessing"]["target"]["values"] = ["a", "b", "c"]


def half_a_character(values):
    values["statement"] = ["\ud800"]


@pytest.mark.parametrize("change", [three_labels, half_a_character])
def test_a_model_that_contradicts_itself_or_cannot_be_printed_is_refused(
    report, refused, tmp_path, change
):
    path = hostile(report, tmp_path, change)
    assert "m.json" in refused("show", path)
    assert "m.json" in refused("predict", path, report / "t.csv")


def test_a_model_cannot_steer_the_terminal(report, taciturn_, tmp_path):
    steers = "\x1b[2J\repsilon = 0"

    def stated(values):
        values["certificate"]["conditions"].append(steers)
        values["statement"].append(f"Condition: {steers}")

    code, out, err = taciturn_("show", hostile(report, tmp_path, stated))
    assert (code, err) == (0, "")
    assert "epsilon = 0" in out
    refused = hostile(report, tmp_path, lambda v: v.update(statement=[steers]))
    code, nothing, err = taciturn_("show", refused)
    assert (code, nothing) == (2, "")
    assert not {"\x1b", "\r"} & set(out + err)
    (tmp_path / "c.csv").write_text("a\x1b[31m,ill\n1,no\n2,yes\n")
    assert "\x1b" not in taciturn_("bounds", tmp_path / "c.csv", "--target", "\x1b[0m")[2]


def test_a_score_that_overflows_is_no_prediction(report, refused, tmp_path):
    def huge(values):
        values["terms"][1]["coefficient"] = [1e308]

    line = refused("predict", hostile(report, tmp_path, huge), report / "t.csv")
    assert "finite" in line


def outcome(seed, folder, capsys):
    """Return "model", or the command that refused; everything that is said is looked through."""
    table = messy_table(seed)
    draft, later, out = folder / "draft.csv", folder / "later.csv", folder / "out"
    draft.write_bytes(table.draft)
    later.write_bytes(table.later)
    code = main(["bounds", str(draft), "--target", "aim", *table.options])
    printed, said = capsys.readouterr()
    assert SECRET not in said
    if code == 0:
        # what is listed as a value is written there by design, remarks and reasons are not
        comments = [line for line in printed.splitlines() if line.startswith("#")]
        assert SECRET not in "".join(comments)
        (folder / "bounds.toml").write_text(printed, encoding="utf-8")
        ask = ["train", str(later), "--target", "aim", "--bounds"]
        code = main([*ask, str(folder / "bounds.toml"), *BUDGET, "--out", str(out)])
        printed, said = capsys.readouterr()
        assert SECRET not in printed + said
        if code == 0:
            assert (out / "model.json").is_file()
            return "model"
    assert code == 2, (seed, table.fault, said)
    assert printed == ""
    assert not out.exists()
    error_in(said)
    assert CURE.search(said), (seed, said)
    named = any(repr(name) in said for name in table.columns)
    assert named or "--delimiter" in said or "--encoding" in said or "row " in said, (seed, said)
    assert table.fault is not None, (seed, said)
    return "refused"


@pytest.mark.parametrize("seed", range(10))
def test_a_generated_table_ends_in_a_model_or_in_one_line(seed, tmp_path, capsys):
    assert outcome(seed, tmp_path, capsys) in {"model", "refused"}


def test_a_message_that_repeats_a_cell_is_caught(tmp_path, capsys, monkeypatch):
    seed = next(s for s in range(100) if messy_table(s).fault == "a cell that is no number")
    assert outcome(seed, tmp_path, capsys) == "refused"

    def telling(cells, name, *_):
        raise InputError(f"column {name!r} holds {cells.iloc[5]}; drop such rows")

    monkeypatch.setattr(import_module("taciturn.tables.encode"), "_numbers", telling)
    with pytest.raises(AssertionError):
        outcome(seed, tmp_path, capsys)


@pytest.mark.slow
def test_most_of_many_generated_tables_end_in_a_model(tmp_path, capsys):
    ends = Counter()
    for seed in range(10, 110):
        folder = tmp_path / str(seed)
        folder.mkdir()
        ends[outcome(seed, folder, capsys)] += 1
    assert ends["model"] >= 50
    assert ends["refused"] >= 10  # the faults are seen
