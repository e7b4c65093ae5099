"""Algorithms by name, with settings from public facts: what the command line can run and audit.

A name stands for a method together with the question it asks: DP-SGD is the noisy gradient method
on Poisson batches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tacit.algorithms.algorithm import StarAlgorithm
from tacit.algorithms.dp_admm import DPADMM
from tacit.algorithms.linearised_admm import LinearisedADMM
from tacit.algorithms.noisy_gradient import NoisyGradient
from tacit.errors import InputError
from tacit.oracles import Gradient, MinibatchGradient, Oracle
from tacit.problems import Loss, Problem


def _dp_admm(problem: Problem) -> StarAlgorithm:
    return DPADMM(problem, rho=0.1, radius=None, step_rule="smooth", regulariser_at="server")


_MAKERS: Mapping[str, Callable[[Problem], StarAlgorithm]] = MappingProxyType(
    {
        "noisy-gradient": NoisyGradient,
        "dp-admm": _dp_admm,
        "dp-sgd": NoisyGradient,
        "linearised-admm": LinearisedADMM,
    }
)
ALGORITHMS = tuple(_MAKERS)
SAMPLED = ("dp-sgd",)
LOCAL = ("linearised-admm",)


def algorithm_named(name: str, problem: Problem, *, local_updates: int = 1) -> StarAlgorithm:
    """Return the algorithm of that name for `problem`, with its public settings.

    Parameters
    ----------
    local_updates
        Questions of an agent in one round, for the algorithms of `LOCAL` and for no other.

    Raises
    ------
    InputError
        If there is none, or it makes one update a round; the message lists the names.
    """
    if name not in _MAKERS:
        raise InputError(f"unknown algorithm {name!r}; choose from {', '.join(ALGORITHMS)}")
    made = _MAKERS[name](problem)
    if isinstance(made, LinearisedADMM):
        return dataclasses.replace(made, local_updates=local_updates)
    if local_updates != 1:
        raise InputError(f"{name} makes one update a round; {', '.join(LOCAL)} makes several")
    return made


def oracle_named(name: str, loss: Loss, *, clip: float, rate: float | None = None) -> Oracle:
    """Return the question that the algorithm of that name asks.

    Parameters
    ----------
    clip
        Bound on the norm of a record's coefficient.
    rate
        Poisson sampling rate, for the algorithms of `SAMPLED` and for no other.

    Raises
    ------
    InputError
        If a rate is missing, or given to an algorithm that does not sample.
    """
    if (name in SAMPLED) != (rate is not None):
        raise InputError(
            f"{name} was given sampling rate {rate}; {', '.join(SAMPLED)} needs one, and no other "
            "algorithm takes one"
        )
    return Gradient(loss, clip) if rate is None else MinibatchGradient(loss, clip, rate)
