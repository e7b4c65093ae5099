"""Exact noise: integers of a stated law, drawn from a cryptographic stream."""

from taciturn.noise.choice import exponential_choice
from taciturn.noise.gaussian import discrete_gaussian
from taciturn.noise.laplace import discrete_laplace
from taciturn.noise.stream import Label, Stream

__all__ = ["Label", "Stream", "discrete_gaussian", "discrete_laplace", "exponential_choice"]
