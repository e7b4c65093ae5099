"""The frame of reproductions: figures, orderings, and files that are whole or not there."""

from __future__ import annotations

import dataclasses
import json
import math
import platform
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from taciturn.errors import InputError
from taciturn_papers.reproductions import (
    RULE,
    STAMP,
    Budget,
    Curve,
    Figure,
    Measured,
    Ordering,
    Pair,
    Panel,
    Reproduction,
    Table,
    page,
    plain,
    register,
)  # fmt: skip
from taciturn_papers.reproductions.figure import commonest_label, level
from taciturn_papers.reproductions.machine import machine
from taciturn_papers.reproductions.ordering import LEVEL, VERDICTS, equality, judged
from taciturn_papers.reproductions.page import values_of, write
from taciturn_papers.reproductions.portions import sources

TIGHT, LOOSE = (Budget(total, 1e-5, "messages", total / 5) for total in (0.5, 1.0))
OPEN = Budget(math.inf, 1e-5, "messages")


def one(mean, spread=0.01, repetitions=4):
    """A quantity with about this mean and deviation; the values are not in step with another's."""
    if repetitions < 2:
        return Measured.of([mean] * repetitions)
    draws = np.random.default_rng(int(1e6 * spread)).standard_normal(repetitions)
    draws = (draws - draws.mean()) / draws.std(ddof=1)
    return Measured.of(mean + spread * draws)


def made(**changes):
    swept = Curve("a method", (TIGHT, LOOSE), (0.5, 1.0), (one(0.3), one(0.2)), ("c_w",))
    fixed = Curve("another", (LOOSE,), (0.5, 1.0), (one(0.25), one(math.nan)))
    line = Curve("optimum", (OPEN,), (0.5, 1.0), (Measured.computed(0.1),) * 2, reference=True)
    panels = (Panel("x & y", "error", (swept, fixed, line), ((0.5, "half"), (1.0, "one")), True),)
    figure = Figure("Figure 1", "Figure 1: <errors>", "Which is best?", "the first is", panels)
    table = Table("Table I", "Table I: times", ("name", "seconds"), (("a", one(2.0)),), "a note")
    orderings = (
        Ordering(
            "Figure 1", "more budget, less error", (Pair("", ("b", one(0.2)), ("a", one(0.3))),)
        ),
        Ordering(
            "Table I", "ours is quicker", (Pair("", ("b", one(3.0)), ("a", one(2.0))),), "ours"
        ),
    )
    fields = {
        "paper": "someone2020", "title": "Someone 2020",
        "run": "a quick run on 2,000 records", "problem": ("What it is about.",),
        "settings": (("agents", "4"),), "seeds": (0, 1), "figures": (figure,), "tables": (table,),
        "orderings": orderings, "notes": ("A note & more.",), "seconds": 1.5,
    }  # fmt: skip
    return Reproduction(**{**fields, **changes})


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def test_mean_and_spread_are_those_of_numpy():
    values = [0.1, 0.4, 0.7]
    measured = Measured.of(values)
    assert (measured.mean, measured.spread) == (np.mean(values), np.std(values, ddof=1))
    assert (measured.repetitions, measured.values) == (3, (0.1, 0.4, 0.7))
    assert (Measured.of([2.0]).repetitions, Measured.computed(2.0).repetitions) == (1, 0)


def test_equality_is_the_t_test_of_scipy_paired_where_the_seeds_are_the_same():
    a, b, c = [1.0, 2.0, 4.0], [1.5, 2.4, 4.7], [1.5, 2.5]
    ours = [equality(Measured.of(a), Measured.of(other)) for other in (b, c)]
    assert ours[0] == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert ours[1] == pytest.approx(stats.ttest_ind(a, c, equal_var=False).pvalue)
    alone = equality(Measured.of(a), Measured.computed(0.5))
    assert alone == pytest.approx(stats.ttest_1samp(a, 0.5).pvalue)
    assert equality(Measured.computed(1.0), Measured.computed(1.1)) == 0
    assert equality(Measured.computed(1.0), Measured.computed(1.0)) == 1
    assert equality(Measured.of([1.0]), Measured.of([2.0])) == 1
    assert equality(Measured.of([1.0, math.nan]), Measured.of([2.0, 2.0])) == 1


CLEAR = Pair("", ("a", one(0.1)), ("b", one(0.3)))
WRONG = Pair("", ("b", one(0.3)), ("a", one(0.1)))
TIED = Pair("", ("a", one(0.2468, 0.01)), ("b", one(0.2468, 0.011)))
ONCE = Pair("", ("a", one(0.1, 0, 1)), ("b", one(9.0)))
NONE = Pair("", ("a", one(math.nan)), ("b", one(0.2)))


@pytest.mark.parametrize("pairs", [(TIED,), (ONCE,), (NONE,), (TIED, ONCE, TIED)])
def test_ties_and_what_was_measured_once_decide_nothing(pairs):
    assert Ordering("f", "claim", pairs).verdict == "undecided"


@pytest.mark.parametrize(
    ("pairs", "verdict"),
    [
        ((CLEAR, ONCE), "comes out"),
        ((CLEAR, TIED), "comes out"),
        ((CLEAR, NONE), "comes out"),
        ((WRONG, TIED), "does not come out"),
        ((CLEAR, WRONG), "comes out in part"),
    ],
)
def test_a_tie_is_neutral_and_only_clear_comparisons_decide(pairs, verdict):
    assert Ordering("f", "claim", pairs).verdict == verdict


def test_the_count_says_how_many_comparisons_are_in_which_state():
    assert Ordering("f", "claim", (CLEAR, CLEAR, WRONG, TIED, ONCE)).count == (
        "2 of 5, 1 reversed, 1 too close to tell, 1 measured once"
    )


def under(reading, *pairs):
    return tuple(dataclasses.replace(pair, reading=reading) for pair in pairs)


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (CLEAR, CLEAR, "comes out"),
        (CLEAR, WRONG, "comes out under some readings"),
        (CLEAR, TIED, "comes out under some readings"),
        (WRONG, TIED, "does not come out"),
        (TIED, TIED, "undecided"),
    ],
)
def test_each_reading_of_what_a_paper_leaves_open_is_judged_alone(first, second, verdict):
    claim = Ordering("f", "claim", under("c = 1", first) + under("c = 2", second))
    assert claim.verdict == verdict
    assert claim.count.startswith("c = 1: ")
    assert "; c = 2: " in claim.count


def test_a_claim_that_is_clear_alone_may_be_too_close_among_many():
    """Holm's procedure by hand: p of the first is below 5 %, and above a twentieth of it."""
    near = Pair("", ("a", one(0.2, 0.1, 5)), ("b", one(0.39, 0.05, 5)))
    assert LEVEL / 20 < near.p_value < LEVEL
    assert Ordering("f", "claim", (near,)).verdict == "comes out"
    assert Ordering("f", "claim", (near, *(TIED,) * 19)).verdict == "undecided"


def test_equal_means_are_called_different_in_no_more_than_one_ordering_of_twenty():
    """2,000 claims of six comparisons each of draws with one mean, five seeds; 3.9 deviations."""
    draw = np.random.default_rng(0)
    wrong = 0
    for _ in range(2000):
        values = draw.standard_normal((7, 5)) + draw.standard_normal(5)
        rows = [Measured.of(row) for row in values]
        pairs = [Pair("", ("a", rows[0]), ("b", other)) for other in rows[1:]]
        wrong += any(state in {"in order", "reversed"} for state in judged(pairs))
    assert wrong <= 2000 * LEVEL + 3.9 * math.sqrt(2000 * LEVEL * (1 - LEVEL))


def test_a_claim_without_numbers_and_a_curve_without_budgets_are_refused():
    with pytest.raises(InputError, match="nothing was measured"):
        Ordering("f", "claim", ())
    with pytest.raises(InputError, match="one budget or one each"):
        Curve("a", (TIGHT, LOOSE), (1.0, 2.0, 3.0), (one(1.0),) * 3)


def test_the_json_is_strict_and_every_curve_has_its_totals():
    values = json.loads(json.dumps(plain(made()), allow_nan=False), parse_constant=refuse)
    curves = values["figures"][0]["panels"][0]["curves"]
    assert [curve["total_epsilon"] for curve in curves] == [[0.5, 1.0], 1.0, "infinity"]
    assert [curve["epsilon_per_round"] for curve in curves] == [[0.1, 0.2], 0.2, None]
    assert curves[0]["not_private"] == ["c_w"]
    assert curves[1]["mean"] == [0.25, "undefined"]
    assert [claim["verdict"] for claim in values["orderings"]] == ["comes out", "does not come out"]
    assert values["verdicts"] == {**dict.fromkeys(VERDICTS, 0), "comes out": 1}
    pair = values["orderings"][0]["comparisons"][0]
    assert (pair["state"], len(pair["claimed_smaller"]["values"])) == ("in order", 4)
    assert (values["run"], values["rule"]) == ("a quick run on 2,000 records", RULE)
    assert (values["seeds"], values["stamp"]) == ([0, 1], STAMP)
    cell = values["tables"][0]["rows"][0][1]
    assert (cell["mean"], cell["spread"]) == (pytest.approx(2.0), pytest.approx(0.01))
    assert (cell["repetitions"], len(cell["values"])) == (4, 4)


def test_the_curves_are_written_with_every_value_of_every_repetition(tmp_path):
    write(made(), tmp_path / "run", force=False, curves=True)
    read = pd.read_csv(tmp_path / "run" / "curves.csv")
    swept = read[(read.curve == "a method") & (read.x == 0.5)]
    assert swept.value.mean() == pytest.approx(0.3)
    assert (list(swept.repetition), set(swept.epsilon)) == ([0, 1, 2, 3], {0.5})
    assert read[read.curve == "optimum"].repetition.isna().all()
    assert pd.read_parquet(tmp_path / "run" / "curves.parquet").equals(values_of(made()))


def test_the_page_loads_nothing_from_elsewhere_and_says_what_came_out():
    text = page(made())
    addresses = re.findall(r'(?:src|href)="([^"]*)"', text) + re.findall(r"url\((.*?)\)", text)
    assert addresses
    assert all(address.startswith("#") for address in addresses)
    assert not re.findall(r"<(?:script|link|img|iframe)|@import", text)
    for needed in (
        "A quick run on 2,000 records: of the 1 orderings that the paper states, 1 comes out.",
        "does not come out", "Someone 2020, run again: a quick run on 2,000 records",
        "Figure 1: &lt;errors&gt;", "A note &amp; more.", "reproduction, not private",
        "What it is about.", "total epsilon 0.5 (0.1 a round)", "oracle metrics", "2 ± 0.01",
    ):  # fmt: skip
        assert needed in text
    assert "<errors>" not in text


def test_a_run_says_on_what_and_from_which_code_it_was_made(monkeypatch):
    monkeypatch.setattr(register, "_built", lambda *_: made())
    run = register.reproduce("huang2019", quick=True, report=print)
    assert run.machine == machine()
    assert f"Python {platform.python_version()}" in run.machine
    assert platform.node() not in run.machine.split()
    assert run.sources == sources()
    assert run.machine in page(run)
    assert plain(run)["sources"] == run.sources


def test_an_undecided_ordering_is_counted():
    left = Ordering("Figure 1", "less is more", (TIED,))
    given = made(orderings=(*made().orderings, left))
    assert given.outcome == (
        "A quick run on 2,000 records: of the 2 orderings that the paper states, 1 comes out, "
        "1 is undecided."
    )
    values = plain(given)
    assert values["verdicts"] == {
        **dict.fromkeys(VERDICTS, 0), "comes out": 1, "undecided": 1
    }  # fmt: skip
    assert "undecided" in page(given)
    assert page(given).count(RULE) == 1


def test_the_line_of_the_commonest_label_needs_no_record():
    labels = np.array([1, -1, -1, -1, 1, -1, -1, -1])
    curve = commonest_label(labels, (0.5, 2.0, 1.0), delta=1e-5)
    assert [value.mean for value in curve.y] == [25.0, 25.0]
    assert (curve.x, curve.reference) == ((0.5, 2.0), True)
    assert curve.legend == "always the commonest label; asks no record"
    shares = commonest_label(np.array([0, 1, 2, 2]), (1.0,), delta=1e-5, percent=False)
    assert shares.y[0].mean == 0.5
    assert level("optimum", one(0.1), (3.0, 1.0), OPEN).x == (1.0, 3.0)
