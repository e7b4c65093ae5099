"""Exact noise: integers of a stated law, drawn from a cryptographic stream."""

from tacit.noise.choice import exponential_choice
from tacit.noise.gaussian import discrete_gaussian
from tacit.noise.laplace import discrete_laplace
from tacit.noise.stream import Label, Stream

__all__ = ["Label", "Stream", "discrete_gaussian", "discrete_laplace", "exponential_choice"]
