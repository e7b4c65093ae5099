"""Table II, and a table of ours: equal totals, two observers."""

from __future__ import annotations

from tacit_papers.reproductions.figure import Measured, Table
from tacit_papers.reproductions.huang2019.arms import DP_ADMM, DPSGD, DVP, EXACT, OURS, PUBLIC, PVP
from tacit_papers.reproductions.huang2019.measured import Half, equal_totals
from tacit_papers.reproductions.huang2019.settings import Scale, Setting
from tacit_papers.reproductions.huang2019.timing import Timings
from tacit_papers.reproductions.huang2019.trial import ERROR, Outcome

NO_PLAN = "no amount of noise meets this budget"
_PAPER = (
    "In the paper (MATLAB, 3.4 GHz): ADMM 67 s, PVP 79 to 102 s, DVP 60 to 70 s, DP-ADMM 5 to 7 s. "
)


def times_table(table: Timings, scale: Scale) -> Table:
    """Return Table II as measured on this machine."""
    names = (EXACT, PVP, DVP, DP_ADMM)
    rows = tuple(
        (f"{each:g}", *(table[name][place] or NO_PLAN for name in names))
        for place, each in enumerate(scale.timed)
    )
    return Table(
        "Table II",
        f"Table II: seconds for {scale.rounds} rounds of {scale.agents} agents, on this machine",
        ("epsilon a round", *names),
        rows,
        _PAPER + "Here all agents of a round are computed together by one compiled program; the "
        "exact steps are solved by a fixed number of gradient steps, so the ratio is about that "
        "number. Seconds differ from machine to machine and from run to run.",
    )


def totals_table(half: Half, scale: Scale) -> Table:
    """Return the table that we add: test errors at equal totals, by observer."""
    rows = tuple(
        (
            _name(half.outcomes[name]),
            f"{setting.total:.3g}",
            setting.observer,
            _cell(half, name, setting),
        )
        for setting in equal_totals(scale)
        for name in (DP_ADMM, PUBLIC, OURS, DPSGD, PVP, DVP)
    )
    return Table(
        "Our table",
        f"Our table: all methods at equal totals, {scale.agents} agents, delta 1e-05, l2",
        ("method", "total epsilon", "observer", ERROR),
        rows,
        "Under messages every link is read; under sum only the mean of all messages is seen, "
        "and secure aggregation is taken on trust. Gradient methods need less noise then. The "
        "ADMM methods do not: their agents ask at private points, so nothing is credited to "
        "summation and the rows are the same runs.",
    )


def _name(outcome: Outcome) -> str:
    marks = "".join(f"; {name} not private" for name in outcome.arm.not_private)
    return outcome.arm.name + marks


def _cell(half: Half, name: str, setting: Setting) -> str | Measured:
    outcome = half.outcomes[name]
    return NO_PLAN if setting in outcome.refused else outcome.at(setting, ERROR)
