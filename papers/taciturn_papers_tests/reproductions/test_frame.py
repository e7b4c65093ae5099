"""The frame of reproductions: figures, orderings, and files that are whole or not there."""

from __future__ import annotations

import json
import math
import platform
import re

import numpy as np
import pytest

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
    below,
    page,
    plain,
    register,
    rising,
)  # fmt: skip
from taciturn_papers.reproductions.figure import commonest_label, level
from taciturn_papers.reproductions.machine import machine
from taciturn_papers.reproductions.portions import sources

TIGHT, LOOSE = (Budget(total, 1e-5, "messages", total / 5) for total in (0.5, 1.0))
OPEN = Budget(math.inf, 1e-5, "messages")


def one(mean, spread=0.01, repetitions=4):
    return Measured(mean, spread, repetitions)


def made(**changes):
    swept = Curve("a method", (TIGHT, LOOSE), (0.5, 1.0), (one(0.3), one(0.2)), ("c_w",))
    fixed = Curve("another", (LOOSE,), (0.5, 1.0), (one(0.25), one(math.nan)))
    line = Curve("optimum", (OPEN,), (0.5, 1.0), (one(0.1, 0, 1),) * 2, reference=True)
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
    assert measured == Measured(np.mean(values), np.std(values, ddof=1), 3)
    assert Measured.of([2.0]) == Measured(2.0, 0.0, 1)


def test_an_ordering_comes_out_only_if_every_pair_does():
    values = [one(0.1), one(0.2), one(0.3)]
    names = ["a", "b", "c"]
    right = Ordering("f", "grows", rising("", names, values, measure="error"))
    wrong = Ordering("f", "grows", rising("", names, values[::-1], measure="error"))
    part = Ordering("f", "grows", rising("", names, [values[0], values[2], values[1]], measure="e"))
    assert (right.verdict, right.count) == ("comes out", "2 of 2")
    assert (wrong.verdict, wrong.count) == ("does not come out", "0 of 2")
    assert (part.verdict, part.count) == ("does not come out", "1 of 2")
    assert [pair.larger[1].mean for pair in part.telling] == [0.2]


CLEAR = Pair("", ("a", one(0.1)), ("b", one(0.3)))
WRONG = Pair("", ("b", one(0.3)), ("a", one(0.1)))
TIED = Pair("", ("a", one(0.2468, 0.01)), ("b", one(0.2468, 0.01)))
ONCE = Pair("", ("a", one(0.1, 0, 1)), ("b", one(9.0)))
NONE = Pair("", ("a", one(math.nan)), ("b", one(0.2)))


@pytest.mark.parametrize("pairs", [(TIED,), (ONCE,), (NONE,), (TIED, ONCE, TIED)])
def test_ties_and_what_was_measured_once_decide_nothing(pairs):
    assert Ordering("f", "claim", pairs).verdict == "undecided"


@pytest.mark.parametrize(
    ("pairs", "verdict"),
    [
        ((CLEAR, ONCE), "comes out"),
        ((CLEAR, TIED), "does not come out"),
        ((CLEAR, NONE), "does not come out"),
        ((WRONG, ONCE), "does not come out"),
    ],
)
def test_one_clear_comparison_is_enough_to_decide_and_then_all_must_hold(pairs, verdict):
    assert Ordering("f", "claim", pairs).verdict == verdict


def test_a_difference_within_the_standard_errors_is_too_close_to_tell():
    gap = 0.1  # against standard errors of spread / sqrt(4) each
    near, far = (
        below(("a", [one(0.2, spread)]), ("b", [one(0.2 + gap, spread)]), ["here"])[0]
        for spread in (0.11, 0.09)
    )
    assert (near.clear, far.clear) == (False, True)
    assert Ordering("f", "claim", (near, far)).count == "2 of 2, 1 too close to tell"


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
    assert [claim["comes_out"] for claim in values["orderings"]] == [True, False]
    assert [claim["verdict"] for claim in values["orderings"]] == ["comes out", "does not come out"]
    assert values["verdicts"] == {"comes out": 1, "does not come out": 0, "undecided": 0}
    assert (values["run"], values["rule"]) == ("a quick run on 2,000 records", RULE)
    assert (values["seeds"], values["stamp"]) == ([0, 1], STAMP)
    assert values["tables"][0]["rows"][0][1] == {"mean": 2.0, "spread": 0.01, "repetitions": 4}


def test_the_page_loads_nothing_from_elsewhere_and_says_what_came_out():
    text = page(made())
    addresses = re.findall(r'(?:src|href)="([^"]*)"', text) + re.findall(r"url\((.*?)\)", text)
    assert addresses
    assert all(address.startswith("#") for address in addresses)
    assert not re.findall(r"<(?:script|link|img|iframe)|@import", text)
    for needed in (
        "A quick run on 2,000 records: 1 of the 1 orderings that the paper states come out here.",
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


def test_an_undecided_ordering_is_counted_and_is_neither_true_nor_false_in_the_json():
    left = Ordering("Figure 1", "less is more", (TIED,))
    given = made(orderings=(*made().orderings, left))
    assert given.outcome == (
        "A quick run on 2,000 records: 1 of the 2 orderings that the paper states come out here; "
        "1 is undecided."
    )
    values = plain(given)
    assert values["verdicts"] == {"comes out": 1, "does not come out": 0, "undecided": 1}
    assert values["orderings"][-1]["comes_out"] is None
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
