"""Exact noise: integers of a stated law, drawn from a cryptographic stream."""

from taciturn.kernel.noise.choice import exponential_choice
from taciturn.kernel.noise.gaussian import discrete_gaussian
from taciturn.kernel.noise.laplace import discrete_laplace
from taciturn.kernel.noise.stream import Label, Stream

__all__ = [
    "Label", "Stream", "discrete_gaussian", "discrete_laplace", "exponential_choice",
]  # fmt: skip
