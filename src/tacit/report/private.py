"""The private score of a model as a section of a page."""

from __future__ import annotations

from html import escape

from tacit.evaluation import PrivateScore
from tacit.evaluation.score import percent as percent_with_interval
from tacit.report.layout import section, table_of


def private_section(score: PrivateScore | None) -> str:
    """Return a private score as HTML, with its calibration; nothing if there is none."""
    if score is None:
        return ""
    bins = [
        (f"{part.low:.2f} to {part.high:.2f}", percent_with_interval(part.share))
        for part in score.calibration or ()
    ]
    calibration = ""
    if bins:
        head = "Observed share of records, by their predicted probability"
        calibration = f"<p>{head}</p>{table_of(bins)}"
    note = (
        f"One noised answer of each agent, covered by the certificate: these {score.unit}s were "
        f"not trained on, so the whole costs a {score.unit} no more than the training alone."
    )
    return section(
        "How good it is, answered privately",
        f"<p>{escape(score.head)}</p>{table_of(score.rows())}{calibration}"
        f'<p class="small">{note}</p>',
    )
