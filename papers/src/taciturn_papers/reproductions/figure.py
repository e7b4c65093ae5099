"""What a reproduction is made of: figures, panels, curves with their budgets, and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from taciturn.errors import InputError
from taciturn.kernel.privacy import Adjacency, ReplaceOne, Terms
from taciturn.names import observer_named
from taciturn.typing import HostArray


@dataclass(frozen=True)
class Budget:
    """What one run may spend in all, or has spent.

    Attributes
    ----------
    total, delta
        Of the whole run, all rounds together; infinite for a run without noise, 0 for what asks
        no record.
    observer
        Who is watching: "messages" or "sum".
    per_round
        Epsilon of one round at the same delta, as the paper counts; None where rounds have no such
        number.
    """

    total: float
    delta: float
    observer: str = "messages"
    per_round: float | None = None

    @property
    def terms(self) -> Terms:
        """The terms of a plan: one record of one agent is replaced by any other."""
        adjacency = Adjacency(ReplaceOne(), "record")
        return Terms(self.total, self.delta, adjacency, observer_named(self.observer))

    def __str__(self) -> str:
        """Return the budget as text, the total first.

        Examples
        --------
        >>> print(Budget(0.7512, 1e-5, "messages", 0.1))
        total epsilon 0.751 (0.1 a round), delta 1e-05, messages
        """
        if math.isinf(self.total):
            return "no privacy"
        if self.total == 0:
            return "asks no record"
        each = "" if self.per_round is None else f" ({self.per_round:.3g} a round)"
        return f"total epsilon {self.total:.3g}{each}, delta {self.delta:g}, {self.observer}"


@dataclass(frozen=True)
class Measured:
    """One quantity: a value of every repetition, or one number.

    Attributes
    ----------
    values
        In the order of the seeds.
    exact
        Whether it is one number that more repetitions would not change: computed, or measured
        without chance.

    Examples
    --------
    >>> print(Measured.of([0.2, 0.22]))
    0.21 ± 0.01414
    """

    values: tuple[float, ...]
    exact: bool = False

    @staticmethod
    def of(values: HostArray | Sequence[float]) -> Measured:
        """Return what was measured in some repetitions."""
        return Measured(tuple(float(value) for value in values))

    @staticmethod
    def columns(samples: HostArray) -> tuple[Measured, ...]:
        """Return what was measured at every place, from `(repetitions, places)`."""
        return tuple(Measured.of(column) for column in samples.T)

    @staticmethod
    def computed(value: float) -> Measured:
        """Return a number that no repetition would change."""
        return Measured((float(value),), exact=True)

    @property
    def mean(self) -> float:
        """The mean over the repetitions."""
        return float(np.mean(self.values))

    @property
    def spread(self) -> float:
        """The sample standard deviation; 0 for one value."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else 0.0

    @property
    def repetitions(self) -> int:
        """How many repetitions there are; 0 for an exact number."""
        return 0 if self.exact else len(self.values)

    def to_dict(self) -> dict[str, float | int | list[float]]:
        """Return mean, deviation, number of repetitions and the values themselves."""
        return {
            "mean": self.mean,
            "spread": self.spread,
            "repetitions": self.repetitions,
            "values": list(self.values),
        }

    def __str__(self) -> str:
        if math.isnan(self.mean):
            return "no number"
        spread = f" ± {self.spread:.4g}" if self.repetitions > 1 else ""
        return f"{self.mean:.4g}{spread}"


@dataclass(frozen=True)
class Curve:
    """One line of a panel.

    Attributes
    ----------
    label
        The method.
    budgets
        One for the whole curve, or one for each of its points.
    x, y
        Where, and what was measured there.
    not_private
        Constants that were taken from private data: the budget does not cover their choice.
    reference
        Whether the curve is something to compare with rather than a run under a budget.
    """

    label: str
    budgets: tuple[Budget, ...]
    x: tuple[float, ...]
    y: tuple[Measured, ...]
    not_private: tuple[str, ...] = ()
    reference: bool = False

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y) or len(self.budgets) not in {1, len(self.x)}:
            raise InputError(
                f"curve {self.label!r} has {len(self.x)} places, {len(self.y)} values and "
                f"{len(self.budgets)} budgets; give one value each, and one budget or one each"
            )

    @property
    def legend(self) -> str:
        """The label with its budget, where that is one, and with what is not private about it."""
        marks = [f"{name} not private" for name in self.not_private]
        budget = [str(self.budgets[0])] if len(self.budgets) == 1 else []
        return "; ".join([self.label, *budget, *marks])

    def at(self, place: int) -> Budget:
        """Return the budget of one point."""
        return self.budgets[place if len(self.budgets) > 1 else 0]


def level(name: str, value: Measured, x: Sequence[float], budget: Budget) -> Curve:
    """Return a horizontal line over the range of `x`, to compare with."""
    return Curve(name, (budget,), (min(x), max(x)), (value, value), reference=True)


def commonest_label(
    targets: HostArray, x: Sequence[float], *, delta: float, percent: bool = True
) -> Curve:
    """Return the error of always giving the commonest label of a public test set, as a line.

    Parameters
    ----------
    targets
        The labels of the test records, `(N,)`.
    percent
        Whether errors are drawn in per cent; else as shares.
    """
    _, counts = np.unique(np.asarray(targets), return_counts=True)
    wrong = (100 if percent else 1) * (1 - float(np.max(counts)) / float(np.sum(counts)))
    return level("always the commonest label", Measured.computed(wrong), x, Budget(0.0, delta))


def ticks(values: Iterable[float]) -> tuple[tuple[float, str], ...]:
    """Return the ticks of an axis that is labelled where something was measured."""
    return tuple((value, f"{value:g}") for value in values)


def listed(values: Iterable[float]) -> str:
    """Return numbers as text.

    Examples
    --------
    >>> listed((0.1, 1.0))
    '0.1, 1'
    """
    return ", ".join(f"{value:g}" for value in values)


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes
    ----------
    ticks
        (place, text) along the x axis; empty for a plain one.
    log_x, log_y
        Whether an axis is logarithmic.
    """

    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    ticks: tuple[tuple[float, str], ...] = ()
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure: what it asks, what the paper says of it, and what was measured."""

    id: str
    title: str
    question: str
    paper_shows: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Table:
    """A table: cells are text or measured numbers. `note` is read below it."""

    id: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | Measured, ...], ...]
    note: str
