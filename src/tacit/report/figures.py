"""The curves of a training, as one drawing that lies inside the page."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tacit.report.drawing import STYLE, inline_svg
from tacit.report.errors import error_name
from tacit.training import Training
from tacit.typing import HostArray

_INK, _REFERENCE = "#1f5fa8", "#b45309"


def curves_svg(training: Training) -> str:
    """Return an `<svg>` of test error (in per cent) and test loss of the released model by round.

    The non-private optimum, where it was computed, is a dashed line. The text refers to nothing
    outside itself.
    """
    best = training.nonprivate if training.dataset.public else None
    with matplotlib.rc_context(dict(STYLE)):
        figure = Figure(figsize=(8.2, 3.1), layout="constrained")
        FigureCanvasSVG(figure)
        left, right = figure.subplots(1, 2)
        number = training.dataset.task == "regression"
        factor, unit = (1, "units of the target") if number else (100, "%")
        errors = factor * training.curves["test_error"]
        title = f"test {error_name(training)}, {unit}"
        _draw(left, title, errors, None if best is None else factor * best.test_error)
        losses = training.curves["test_loss"]
        _draw(right, "test loss", losses, None if best is None else best.test_loss)
        return inline_svg(
            figure, "Test error and test loss of the released model after every round"
        )


def _draw(axes: Axes, title: str, values: HostArray, reference: float | None) -> None:
    rounds = np.arange(1, len(values) + 1)
    marker = "o" if len(values) <= 30 else ""
    axes.plot(rounds, values, color=_INK, marker=marker, markersize=3.5, label="released model")
    if reference is not None:
        axes.axhline(reference, color=_REFERENCE, linestyle="--", label="non-private optimum")
    axes.set_title(title, loc="left", fontsize=10, color="#1d232b")
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color="#e3e7ec", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=9)
