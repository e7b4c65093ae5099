"""How wide the interval of a private score will be, from public facts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from taciturn.engine import Plan
from taciturn.evaluation.asking import evaluation_plan, noise_variance
from taciturn.evaluation.intervals import LEVEL, QUANTILE
from taciturn.oracles import Tally
from taciturn.proposal import Proposal, evaluation_question

LIKELY = 0.1


@dataclass(frozen=True)
class Width:
    """Half-widths of the interval of an error, before anything is asked.

    Of labels the error is the fraction of wrong ones, of numbers the mean absolute error in units
    of half the target's range.

    Attributes
    ----------
    records, trained
        How many records are held out, and trained on; of persons, how many persons.
    noise
        What noise alone leaves.
    likely
        Of labels: what both leave at an error of 10 %; None for numbers.
    most
        What both leave at most: at an error of 1/2.
    """

    records: int
    trained: int
    noise: float
    likely: float | None
    most: float
    unit: Literal["record", "person"] = "record"

    def lines(self) -> list[str]:
        """Return the widths as sentences."""
        of = "of the error" if self.likely is not None else "of the mean absolute error"
        unit = "" if self.likely is not None else " of half the target's range"
        at = "" if self.likely is None else f", {self.likely:.2%} at an error of {LIKELY:.0%}"
        return [
            f"Evaluation: {self.records:,} {self.unit}s are held out, {self.trained:,} trained on; "
            f"the {LEVEL:.0%} interval {of} will reach {self.most:.2%}{unit} either way at most"
            f"{at}; noise alone {self.noise:.2%}"
        ]


def expected_width(proposal: Proposal, planned: Plan) -> Width | None:
    r"""Return the widths for a proposal; None if it holds nothing out.

    With n records held out, k of d cells wrong and noise of variance v in each cell,

    .. math:: 1.96 \sqrt{v k (1 - k / d) / n^2 + e (1 - e) / n}

    at an error of e (`taciturn.evaluation.intervals`); of numbers v / n^2 in place of the first
    term.

    Parameters
    ----------
    planned
        The plan of the training.
    """
    evaluation = proposal.evaluation
    if evaluation is None:
        return None
    rows = proposal.budget.rows_per_person
    records = sum(evaluation.counts) // (rows or 1)
    variance = noise_variance(evaluation_plan(proposal, planned)) / records**2
    question = evaluation_question(proposal.data, rows)
    if isinstance(question, Tally):
        cells = math.prod(question.shape)
        wrong = cells * (1 - 1 / question.classes)
        variance *= wrong * (1 - wrong / cells)

    def half(error: float) -> float:
        return QUANTILE * math.sqrt(variance + error * (1 - error) / records)

    return Width(
        records=records,
        trained=proposal.units,
        noise=half(0.0),
        likely=half(LIKELY) if isinstance(question, Tally) else None,
        most=half(0.5),
        unit="record" if rows is None else "person",
    )
