"""What a reproduction is made of: figures, panels, curves with their budgets, and tables."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit.errors import InputError
from tacit.typing import HostArray


@dataclass(frozen=True)
class Budget:
    """What was spent on one run.

    Attributes
    ----------
    total, delta
        Of the whole run, all rounds together; infinite for a run without noise.
    observer
        Who is watching: "messages" or "sum".
    per_round
        Epsilon of one round at the same delta, as the paper counts; None where rounds have no such
        number.
    """

    total: float
    delta: float
    observer: str
    per_round: float | None = None

    def __str__(self) -> str:
        """Return the budget as text, the total first.

        Examples
        --------
        >>> print(Budget(0.7512, 1e-5, "messages", 0.1))
        total epsilon 0.751 (0.1 a round), delta 1e-05, messages
        """
        if math.isinf(self.total):
            return "no privacy"
        each = "" if self.per_round is None else f" ({self.per_round:.3g} a round)"
        return f"total epsilon {self.total:.3g}{each}, delta {self.delta:g}, {self.observer}"


@dataclass(frozen=True)
class Measured:
    """Mean, standard deviation and number of repetitions of one quantity.

    No repetitions at all: the number is computed, not measured, so it has no error.

    Examples
    --------
    >>> print(Measured.of([0.2, 0.22]))
    0.21 ± 0.01414
    """

    mean: float
    spread: float
    repetitions: int

    @staticmethod
    def of(values: HostArray | list[float]) -> Measured:
        """Return the mean and the sample standard deviation (0 for one value) of a vector."""
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        return Measured(float(np.mean(values)), spread, len(values))

    @staticmethod
    def computed(value: float) -> Measured:
        """Return a number that no run was needed for."""
        return Measured(float(value), 0.0, 0)

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
