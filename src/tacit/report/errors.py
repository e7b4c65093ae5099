"""How the error of a model is called and written, for labels and for numbers."""

from __future__ import annotations

from tacit.training import Training


def error_name(training: Training) -> str:
    """Return "error", or "root-mean-square error" for a regression."""
    return "root-mean-square error" if training.dataset.task == "regression" else "error"


def error_text(training: Training, value: float) -> str:
    """Return a fraction in per cent, or a number in the units of the target."""
    return f"{value:.4g}" if training.dataset.task == "regression" else percent(value)


def percent(fraction: float) -> str:
    """Return a fraction as text in per cent.

    Examples
    --------
    >>> percent(0.15149)
    '15.15 %'
    """
    return f"{100 * fraction:.2f} %"
