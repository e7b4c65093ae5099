"""The experiments of a paper, repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import taciturn
from taciturn.report import strict
from taciturn_papers.reproductions.figure import Curve, Figure, Measured, Table
from taciturn_papers.reproductions.ordering import RULE, VERDICTS, Ordering, Pair, State, tally

Report = Callable[[str], None]
STAMP = "reproduction, not private: the seeds of the noise are given, so it can be drawn again"


def run_named(scale: object, *, quick: object, full: object) -> str:
    """Return the name of a run at this scale."""
    return "a quick run" if scale == quick else "the full run" if scale == full else "a run"


@dataclass(frozen=True)
class Picture:
    """A drawing other than a plot of curves.

    Attributes
    ----------
    html
        An `<svg>` or pictures, without outside references.
    values
        The numbers in it, as plain values.
    """

    id: str
    title: str
    text: str
    html: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Reproduction:
    """The settings, results and caveats of a repeated experiment.

    Attributes
    ----------
    paper, title
        Key and full name.
    run
        Which run it was, and on how many records: "a quick run on 2,000 records".
    problem
        Paragraphs for a reader who does not know the paper.
    settings
        (name, value) of every choice. seeds
        Of the repetitions: split, division among agents and noise.
    notes
        Caveats, as sentences. seconds
        Wall time of the whole.
    machine
        What it ran on.
    sources
        A digest of the code of both packages and of the versions of JAX and NumPy.
    pictures
        Drawings, shown after the figures.
    """

    paper: str
    title: str
    run: str
    problem: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]
    seeds: tuple[int, ...]
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    orderings: tuple[Ordering, ...]
    notes: tuple[str, ...]
    seconds: float = 0.0
    machine: str = ""
    sources: str = ""
    pictures: tuple[Picture, ...] = ()

    def claims(self, part: str | None = None, *, whose: str = "paper") -> list[Ordering]:
        """Return the orderings of the paper (or ours), of one part or of all."""
        return [o for o in self.orderings if o.whose == whose and part in {None, o.part}]

    @property
    def headline(self) -> str:
        """Title and run in one line."""
        return f"{self.title}, run again: {self.run}"

    @property
    def outcome(self) -> str:
        """How many of the orderings that the paper states have which verdict, in one sentence."""
        run = self.run[0].upper() + self.run[1:]
        return f"{run}: {tally([ordering.verdict for ordering in self.claims()])}."

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values; every curve carries its budgets, totals first."""
        return {
            "paper": self.paper,
            "title": self.title,
            "run": self.run,
            "stamp": STAMP,
            "version": taciturn.__version__,
            "settings": dict(self.settings),
            "seeds": list(self.seeds),
            "figures": [_figure(figure) for figure in self.figures],
            "tables": [_table(table) for table in self.tables],
            "pictures": [{"id": p.id, "title": p.title, "values": p.values} for p in self.pictures],
            "rule": RULE,
            "verdicts": {v: sum(o.verdict == v for o in self.claims()) for v in VERDICTS},
            "orderings": [_ordering(ordering) for ordering in self.orderings],
            "notes": list(self.notes),
            "seconds": self.seconds,
            "machine": self.machine,
            "sources": self.sources,
        }


def plain(made: Reproduction) -> dict[str, Any]:
    """Return all numbers of a reproduction as strictly valid JSON values."""
    values: dict[str, Any] = strict(made.to_dict())
    return values


def _figure(figure: Figure) -> dict[str, Any]:
    panels = [
        {"x": p.x_label, "y": p.y_label, "curves": [_curve(curve) for curve in p.curves]}
        for p in figure.panels
    ]
    return {
        "id": figure.id,
        "title": figure.title,
        "question": figure.question,
        "paper_shows": figure.paper_shows,
        "panels": panels,
    }


def _curve(curve: Curve) -> dict[str, Any]:
    budgets = [curve.at(place) for place in range(len(curve.x))]
    return {
        "label": curve.label,
        "total_epsilon": _short([b.total for b in budgets]),
        "epsilon_per_round": _short([b.per_round for b in budgets]),
        "delta": _short([b.delta for b in budgets]),
        "observer": _short([b.observer for b in budgets]),
        "not_private": list(curve.not_private),
        "reference": curve.reference,
        "x": list(curve.x),
        "mean": [value.mean for value in curve.y],
        "spread": [value.spread for value in curve.y],
        "repetitions": _short([value.repetitions for value in curve.y]),
    }


def _short(values: Sequence[Any]) -> Any:
    """Return one value if all are the same, else the list."""
    return values[0] if len(set(values)) == 1 else list(values)


def _table(table: Table) -> dict[str, Any]:
    rows = [[c.to_dict() if isinstance(c, Measured) else c for c in row] for row in table.rows]
    return {"id": table.id, "title": table.title, "columns": list(table.columns), "rows": rows,
            "note": table.note}  # fmt: skip


def _ordering(ordering: Ordering) -> dict[str, Any]:
    both = zip(ordering.pairs, ordering.states, strict=True)
    return {
        "part": ordering.part,
        "whose": ordering.whose,
        "claim": ordering.claim,
        "verdict": ordering.verdict,
        "count": ordering.count,
        "comparisons": [_pair(*each) for each in both],
    }


def _pair(pair: Pair, state: State) -> dict[str, Any]:
    return {
        "where": pair.where,
        "reading": pair.reading,
        "claimed_smaller": {"name": pair.smaller[0], **pair.smaller[1].to_dict()},
        "claimed_larger": {"name": pair.larger[0], **pair.larger[1].to_dict()},
        "p_value": pair.p_value,
        "state": state,
    }
