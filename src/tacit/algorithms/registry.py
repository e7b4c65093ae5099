"""Algorithms by name, with settings from public facts: what the command line can run and audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tacit.algorithms.algorithm import StarAlgorithm
from tacit.algorithms.dp_admm import DPADMM
from tacit.algorithms.noisy_gradient import NoisyGradient
from tacit.errors import InputError
from tacit.problems import Problem


def _dp_admm(problem: Problem) -> StarAlgorithm:
    return DPADMM(problem, rho=0.1, radius=None, step_rule="smooth", regulariser_at="server")


_MAKERS: Mapping[str, Callable[[Problem], StarAlgorithm]] = MappingProxyType(
    {"noisy-gradient": NoisyGradient, "dp-admm": _dp_admm}
)
ALGORITHMS = tuple(_MAKERS)


def algorithm_named(name: str, problem: Problem) -> StarAlgorithm:
    """Return the algorithm of that name for `problem`, with its public settings.

    Raises
    ------
    InputError
        If there is none; the message lists the names.
    """
    if name not in _MAKERS:
        raise InputError(f"unknown algorithm {name!r}; choose from {', '.join(ALGORITHMS)}")
    return _MAKERS[name](problem)
