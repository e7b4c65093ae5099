"""The figures of a private evaluation, with their intervals."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from taciturn.evaluation.intervals import LEVEL, Interval

MOST_NAMED = 12  # classes whose recall is written out


class Scale(NamedTuple):
    """What the errors of a model are told in.

    Attributes
    ----------
    labels
        The labels in the order of the classes; None for numbers.
    probabilities
        Whether scores are log-odds (`taciturn.problems.ClippedLoss.log_odds`).
    unit
        Of numbers: half the range of the target, in the user's units.
    """

    labels: tuple[str, ...] | None
    probabilities: bool
    unit: float


@dataclass(frozen=True)
class Bin:
    """Records whose predicted probability lies in a bin.

    Attributes
    ----------
    low, high
        The bin.
    share
        Of its records: how many belong to the second of two classes, or how many of several are
        recognised. None where noise hides whether there are any.
    """

    low: float
    high: float
    share: Interval | None


@dataclass(frozen=True)
class PrivateScore:
    r"""How good a model is, by noised counts of records that were held out.

    Every interval is of the figure for the population that the records are a sample of, at the
    confidence level 95 %, one figure at a time (`taciturn.evaluation.intervals`).

    Attributes
    ----------
    records
        n, how many were held out; of persons, how many persons.
    noise
        Standard deviation of the noise of one number of the answer, as the sum over agents.
    error
        Of labels: the fraction that is wrong.
    baseline, baseline_error
        The commonest label by the noised counts, and the error of always answering it.
    recall
        For each label the fraction of its records that is recognised.
    confusion
        Records by label (rows) and prediction (columns); noised, so some may be negative.
    calibration
        By bin of the predicted probability; None for scores that are no log-odds.
    auc, auc_limits
        Of two classes: the middle of the limits with an interval that covers both, and the limits
        themselves, between which the AUC of the scores lies that are known by their bin only.
    absolute, root_square
        Of numbers, in the user's units: the mean absolute error and the root of the mean squared
        error, errors above half the range counted as half the range.
    unit
        "person" where persons were held out: each counts once, with the mean over its rows.

    Notes
    -----
    **Guarantee.** Post-processing of one noised answer, which is in the certificate.
    """

    records: int
    noise: float
    error: Interval | None = None
    baseline: str | None = None
    baseline_error: Interval | None = None
    recall: tuple[tuple[str, Interval | None], ...] | None = None
    confusion: tuple[tuple[float, ...], ...] | None = None
    calibration: tuple[Bin, ...] | None = None
    auc: Interval | None = None
    auc_limits: tuple[float, float] | None = None
    absolute: Interval | None = None
    root_square: Interval | None = None
    unit: Literal["record", "person"] = "record"

    @property
    def head(self) -> str:
        """What the figures are, as a sentence."""
        each = ", each counting once" if self.unit == "person" else ""
        return (
            f"Private score, of {self.records:,} {self.unit}s held out{each} (in brackets "
            f"{LEVEL:.0%} intervals, for noise and sample; each holds for one figure by itself, "
            f"among the {self.unit}s that those held out are a sample of):"
        )

    def rows(self) -> list[tuple[str, str]]:
        """Return the figures as names and texts, the most important first."""
        if self.absolute is not None and self.root_square is not None:
            return [
                ("mean absolute error", _number(self.absolute)),
                ("root-mean-square error", _number(self.root_square)),
            ]
        found = [("error", percent(self.error))]
        found.append((f"always answering {self.baseline!r}", percent(self.baseline_error)))
        if self.auc is not None and self.auc_limits is not None:
            low, high = self.auc_limits
            between = f"{low:.3f} to {high:.3f} by its bins"
            found.append(("AUC", f"{between} ({self.auc.low:.3f} to {self.auc.high:.3f})"))
        recalls = sorted(self.recall or (), key=_least_first)[:MOST_NAMED]
        return found + [(f"recall of {label!r}", percent(share)) for label, share in recalls]

    def lines(self) -> list[str]:
        """Return the figures as sentences."""
        return [self.head, *(f"  {name}: {text}" for name, text in self.rows())]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON-safe values, with the sentences."""
        values = dataclasses.asdict(self)
        values["recall"] = None if self.recall is None else dict(values["recall"])
        return {**values, "level": LEVEL, "statement": self.lines()}


def percent(share: Interval | None) -> str:
    """Return a share with its interval, in per cent."""
    if share is None:
        return "hidden by the noise"
    return f"{share.estimate:.2%} ({share.low:.2%} to {share.high:.2%})"


def _number(value: Interval) -> str:
    return f"{value.estimate:.4g} ({value.low:.4g} to {value.high:.4g})"


def _least_first(entry: tuple[str, Interval | None]) -> float:
    return 2.0 if entry[1] is None else entry[1].estimate
