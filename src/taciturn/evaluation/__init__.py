"""A private answer to "how good is it?": a last question to records that were held out."""

from taciturn.evaluation.asking import (
    Evaluated,
    Width,
    ask_held_out,
    check_covered,
    evaluation_plan,
    evaluation_seed,
    expected_width,
    larger_of,
    score_of_totals,
    score_units,
    with_evaluation,
)
from taciturn.evaluation.composition import of_disjoint_parts
from taciturn.evaluation.intervals import LEVEL, Interval, mean_interval, ratio_interval
from taciturn.evaluation.score import (
    Bin,
    PrivateScore,
    Scale,
    score_of_labels,
    score_of_numbers,
    tally_axes,
)

__all__ = [
    "LEVEL",
    "Bin",
    "Evaluated",
    "Interval",
    "PrivateScore",
    "Scale",
    "Width",
    "ask_held_out",
    "check_covered",
    "evaluation_plan",
    "evaluation_seed",
    "expected_width",
    "larger_of",
    "mean_interval",
    "of_disjoint_parts",
    "ratio_interval",
    "score_of_labels",
    "score_of_numbers",
    "score_of_totals",
    "score_units",
    "tally_axes",
    "with_evaluation",
]
