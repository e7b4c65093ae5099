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
    of_disjoint_parts,
    score_of_totals,
    score_units,
    with_evaluation,
)
from taciturn.evaluation.score import PrivateScore, Scale, tally_axes

__all__ = [
    "Evaluated", "PrivateScore", "Scale", "Width", "ask_held_out", "check_covered",
    "evaluation_plan", "evaluation_seed", "expected_width", "larger_of", "of_disjoint_parts",
    "score_of_totals", "score_units", "tally_axes", "with_evaluation",
]  # fmt: skip
