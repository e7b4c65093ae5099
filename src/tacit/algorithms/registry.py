"""Methods by name, with settings from public facts: what the command line can run and audit.

A name stands for an algorithm together with the question it asks: DP-SGD is the noisy gradient
algorithm on Poisson batches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from tacit.algorithms.admm import ADMM
from tacit.algorithms.algorithm import Algorithm, StarAlgorithm
from tacit.algorithms.consensus_admm import at_agents
from tacit.algorithms.dp_admm import DPADMM
from tacit.algorithms.gossip import EXTRA, NIDS
from tacit.algorithms.gossip_admm import LinearisedGossipADMM
from tacit.algorithms.linearised_admm import LinearisedADMM
from tacit.algorithms.noisy_gradient import NoisyGradient
from tacit.algorithms.one_question import OneQuestion
from tacit.algorithms.recal import RECAL
from tacit.algorithms.sadmm import SADMM, RenyiADMM
from tacit.algorithms.vradmm import VRADMM, variance_reduction
from tacit.algorithms.walkman import Walkman
from tacit.errors import InputError
from tacit.oracles import (
    Gradient,
    MinibatchGradient,
    Oracle,
    PerturbedStep,
    ProximalStep,
    Statistics,
)
from tacit.problems import Identity, Problem, structured_from

TARGET_BOUND = 1.0
BATCHES = ("poisson", "fixed")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What a method is made from; everything in it is public.

    Attributes
    ----------
    clip
        Bound on the norm of a record's coefficient; for `Statistics` on a target, at most 1, since
        targets are mapped to [-1, 1].
    record_norm
        Bound on the norm of a record.
    rate
        Of sampling; 1 for the methods that ask on all records.
    rho
        The ADMM parameter, for the methods that have one.
    local_updates
        Questions of an agent in one round, for the methods that have local updates.
    smoothing
        Strength of Laplacian smoothing, for the methods for structures.
    records
        None for Poisson batches; for those of a fixed size the least number of records of an agent.
    """

    problem: Problem
    clip: float
    record_norm: float
    rate: float = 1.0
    rho: float = 0.1
    local_updates: int = 1
    smoothing: float = 0.0
    records: int | None = None


def _none(choice: Choice) -> tuple[Oracle, ...]:
    del choice
    return ()


def _one(rate: float) -> int:
    del rate
    return 1


@dataclass(frozen=True)
class Method:
    """An algorithm, the question it asks, and its own number of rounds.

    Attributes
    ----------
    algorithm, oracle
        From a choice to the algorithm with its public settings, and to its question.
    rounds
        How many are planned if the user does not say.
    sampled
        Whether the question is asked on batches.
    exact
        Whether the question is about a minimiser, not a gradient. The coefficient of a loss with
        several margins is then not clipped, and rho follows `steady_rho`.
    inside
        Whether the noise stands inside what is minimised: then there is no mu.
    admm
        Whether it has a parameter rho.
    local
        Whether agents may make several updates, each a question, in one round.
    structured
        Whether it solves problems with a structure, and only those.
    proximal
        Whether it needs nothing of a regulariser but its prox, so a structure may be one.
    others
        Its questions of kind 1, 2 and so on.
    epoch
        From the sampling rate to the number of rounds that belong together.
    network
        "relay" or "gossip" if there is no aggregator; on a relay `rounds` counts sweeps, of as many
        hops as there are agents.
    """

    algorithm: Callable[[Choice], Algorithm]
    oracle: Callable[[Choice], Oracle]
    rounds: int = 200
    sampled: bool = False
    exact: bool = False
    inside: bool = False
    admm: bool = False
    local: bool = False
    structured: bool = False
    proximal: bool = False
    others: Callable[[Choice], tuple[Oracle, ...]] = _none
    epoch: Callable[[float], int] = _one
    network: Literal["relay", "gossip"] | None = None


def _noisy_gradient(choice: Choice) -> StarAlgorithm:
    return NoisyGradient(choice.problem)


def _dp_admm(choice: Choice) -> StarAlgorithm:
    return DPADMM(
        choice.problem, choice.rho, radius=None, step_rule="smooth", regulariser_at="server"
    )


def _admm(choice: Choice) -> StarAlgorithm:
    return ADMM(choice.problem, choice.rho, regulariser_at="server")


def _linearised_admm(choice: Choice) -> StarAlgorithm:
    return LinearisedADMM(choice.problem, choice.local_updates)


def _one_question(choice: Choice) -> StarAlgorithm:
    return OneQuestion(choice.problem)


def _gradient(choice: Choice) -> Oracle:
    return Gradient(choice.problem.loss, choice.clip)


def _batch(choice: Choice) -> Oracle:
    return MinibatchGradient(choice.problem.loss, choice.clip, choice.rate, records=choice.records)


def _statistics(choice: Choice) -> Oracle:
    return Statistics(min(choice.clip, TARGET_BOUND))


def _proximal(choice: Choice) -> ProximalStep:
    own = at_agents(choice.problem, "server")
    return ProximalStep(own, choice.clip, choice.rho, choice.record_norm)


def _perturbed(choice: Choice) -> Oracle:
    return PerturbedStep(_proximal(choice))


def _sadmm(choice: Choice) -> StarAlgorithm:
    return SADMM(structured_from(choice.problem), choice.smoothing)


def _renyi_admm(choice: Choice) -> StarAlgorithm:
    problem = structured_from(choice.problem)
    if not isinstance(problem.forward, Identity):
        raise InputError("renyi-admm is for the structure lasso; use sadmm or vradmm for others")
    return RenyiADMM(problem)


def _inner(rate: float) -> int:
    """Return m = 2 / q: twice the data between snapshots, as in Liu et al. 2022."""
    return max(1, round(2 / rate))


def _reduced(choice: Choice) -> tuple[tuple[Oracle, Oracle], float]:
    """Return the questions of variance reduction; logistic coefficients keep their sign."""
    clip = min(choice.clip, choice.problem.loss.lipschitz)
    one_sign = choice.problem.loss.start_coefficient is not None
    spread = clip if one_sign else 2 * clip
    questions, noise = variance_reduction(
        choice.problem.loss, clip=clip, spread=spread, rate=choice.rate, inner=_inner(choice.rate)
    )
    return (dataclasses.replace(questions[0], records=choice.records), questions[1]), noise


def _vradmm(choice: Choice) -> StarAlgorithm:
    problem, noise = structured_from(choice.problem), _reduced(choice)[1]
    return VRADMM(problem, choice.smoothing, inner=_inner(choice.rate), snapshot_noise=noise)


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "noisy-gradient": Method(_noisy_gradient, _gradient, proximal=True),
        "dp-admm": Method(_dp_admm, _gradient, admm=True),
        "pvp": Method(_admm, _proximal, exact=True, admm=True),
        "dvp": Method(_admm, _perturbed, exact=True, inside=True, admm=True),
        "linearised-admm": Method(_linearised_admm, _gradient, local=True),
        "dp-sgd": Method(_noisy_gradient, _batch, sampled=True, proximal=True),
        "one-question": Method(_one_question, _statistics, rounds=1),
        "sadmm": Method(_sadmm, _batch, sampled=True, structured=True),
        "vradmm": Method(
            _vradmm,
            lambda choice: _reduced(choice)[0][0],
            sampled=True,
            structured=True,
            others=lambda choice: _reduced(choice)[0][1:],
            epoch=lambda rate: _inner(rate) + 1,
        ),
        "renyi-admm": Method(_renyi_admm, _batch, sampled=True, structured=True),
        "recal": Method(lambda choice: RECAL(choice.problem), _gradient, network="relay"),
        "walkman": Method(lambda choice: Walkman(choice.problem), _gradient, network="relay"),
        "nids": Method(lambda choice: NIDS(choice.problem), _gradient, network="gossip"),
        "ic-admm": Method(
            lambda choice: LinearisedGossipADMM(choice.problem), _gradient, network="gossip"
        ),
        "extra": Method(lambda choice: EXTRA(choice.problem), _gradient, network="gossip"),
    }
)
ALGORITHMS = tuple(METHODS)
STAR_ALGORITHMS = tuple(name for name, method in METHODS.items() if method.network is None)


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


def fixed_batches(kind: str, algorithm: str, relation: str) -> bool:
    """Return whether the batches of a method are of a fixed size.

    Parameters
    ----------
    kind
        "poisson" or "fixed".

    Raises
    ------
    InputError
        If the kind is unknown, or fixed for a method that does not sample or under another relation
        than replace_one.
    """
    if kind not in BATCHES:
        raise InputError(f"batches is {kind!r}; choose from {', '.join(BATCHES)}")
    fixed = kind == "fixed"
    if fixed and not method_named(algorithm).sampled:
        raise InputError(f"{algorithm} does not sample; leave the kind of batches out")
    if fixed and relation != "replace_one":
        raise InputError(
            f"batches of a fixed size are accounted for under replace_one only, not under "
            f"{relation}; use Poisson batches or replace_one"
        )
    return fixed
