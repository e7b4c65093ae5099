"""Methods by name, with settings from public facts: what the command line can run and audit.

A name stands for an algorithm together with the question it asks: DP-SGD is the noisy gradient
algorithm on Poisson batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tacit.algorithms.algorithm import StarAlgorithm
from tacit.algorithms.dp_admm import DPADMM
from tacit.algorithms.noisy_gradient import NoisyGradient
from tacit.algorithms.one_question import OneQuestion
from tacit.errors import InputError
from tacit.oracles import Gradient, MinibatchGradient, Oracle, Statistics
from tacit.problems import Loss, Problem

TARGET_BOUND = 1.0


@dataclass(frozen=True)
class Method:
    """An algorithm, the question it asks, and its own number of rounds.

    Attributes
    ----------
    algorithm
        From a problem to the algorithm with its public settings.
    oracle
        From a loss, the bound on a record's coefficient and the sampling rate to the question. See
        `question`, which checks the rate.
    rounds
        How many are planned if the user does not say.
    sampled
        Whether the question is asked on Poisson batches.
    """

    algorithm: Callable[[Problem], StarAlgorithm]
    oracle: Callable[[Loss, float, float], Oracle]
    rounds: int = 200
    sampled: bool = False

    def question(self, loss: Loss, *, clip: float, rate: float | None = None) -> Oracle:
        """Return the question that this method asks.

        Parameters
        ----------
        clip
            Bound on the norm of a record's coefficient; for `Statistics` on a target, at most 1,
            since targets are mapped to [-1, 1].
        rate
            Poisson sampling rate, for the methods that sample and for no other.

        Raises
        ------
        InputError
            If a rate is missing, or given to a method that does not sample.
        """
        if self.sampled != (rate is not None):
            needs = "needs a" if self.sampled else "takes no"
            raise InputError(f"this method {needs} sampling rate, and was given {rate}")
        return self.oracle(loss, clip, 1.0 if rate is None else rate)


def _dp_admm(problem: Problem) -> StarAlgorithm:
    return DPADMM(problem, rho=0.1, radius=None, step_rule="smooth", regulariser_at="server")


def _gradient(loss: Loss, clip: float, _: float) -> Oracle:
    return Gradient(loss, clip)


def _statistics(_: Loss, clip: float, __: float) -> Oracle:
    return Statistics(min(clip, TARGET_BOUND))


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "noisy-gradient": Method(NoisyGradient, _gradient),
        "dp-admm": Method(_dp_admm, _gradient),
        "dp-sgd": Method(NoisyGradient, MinibatchGradient, sampled=True),
        "one-question": Method(OneQuestion, _statistics, rounds=1),
    }
)
ALGORITHMS = tuple(METHODS)


def method_named(name: str) -> Method:
    """Return the method of that name.

    Raises
    ------
    InputError
        If there is none; the message lists the names.
    """
    if name not in METHODS:
        raise InputError(f"unknown algorithm {name!r}; choose from {', '.join(ALGORITHMS)}")
    return METHODS[name]
