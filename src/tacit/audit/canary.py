"""An audit problem on which the sensitivity bound is attained in every round."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from tacit.engine.door import Private
from tacit.errors import InputError
from tacit.oracles import Gradient, Oracle, ProjectedStep, ProximalStep, Statistics
from tacit.problems import (
    NoRegulariser,
    Problem,
    Shards,
    Squared,
    WholeSpace,
    pack,
    public_facts,
    replace_record,
)
from tacit.spec import Spec
from tacit.typing import HostArray

FAR = 1e4


@dataclass(frozen=True)
class Canary:
    """Two neighbouring data sets whose exact answers differ by the whole bound at every query.

    They differ in the first record of agent 0, of norm 1: its target is -FAR in `first` and +FAR in
    `second`, clipped by the oracle one way or the other.

    *Gradient.* The record is e_1 in both. Under the squared loss with the coefficient clipped at 1,
    its gradient is +e_1 and -e_1 as long as the margin stays within FAR - 1 of zero: the mean
    gradient moves by 2/m, the replace-one bound, wherever it is asked. A logistic loss would reach
    only half of its bound at ordinary iterates.

    *Projected step.* Without constraint its answer is the gradient plus a public slope.

    *Proximal step.* The gradient being constant, the step moves by its change over rho.

    *Statistics.* With R = Y = 1 the bound sqrt(2) (R^2 + Y^2/2) / m is attained where the records x
    and z have norm R, x'z = Y^2/2 and the clipped targets are -Y and Y (see the docstring of
    `tacit.oracles.Statistics`): x = e_1 and z = e_1/2 + sqrt(3)/2 e_2.
    """

    problem: Problem
    oracle: Oracle
    spec: Spec
    first: Shards
    second: Shards


def canary(
    *, agents: int, records: int, features: int, seed: int, oracle: Oracle | None = None
) -> Canary:
    """Return the pair: each of the agents holds `records` unit-norm records of `features`.

    Parameters
    ----------
    features
        At least 2.
    oracle
        The question that is to be saturated: a `Gradient` of the squared loss clipped at 1 if none
        is given, or `Statistics` of targets clipped at 1.

    Raises
    ------
    InputError
        If no saturating pair is known for the oracle.
    """
    problem = Problem(Squared(), NoRegulariser(), WholeSpace())
    oracle = oracle or Gradient(problem.loss, clip=1.0)
    draw = np.random.default_rng(seed)
    rows = draw.standard_normal((agents * records, features))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[0], other = _saturating(oracle, features)
    targets = np.sign(draw.standard_normal(agents * records)) * FAR
    targets[0] = -FAR
    parts = np.split(np.arange(agents * records), agents)
    first = pack(rows, targets, parts, record_norm=1.0, precision="float64", enforce="clip")
    second = replace_record(first, 0, 0, other, FAR)
    return Canary(problem, oracle, public_facts(problem, first, clip=1.0), first, second)


def _saturating(oracle: Oracle, features: int) -> tuple[HostArray, HostArray]:
    """Return the two rows, of norm 1, between which the answer moves by the whole bound."""
    one, two = np.eye(features)[:2]
    if isinstance(oracle, Statistics) and oracle.target_bound == 1:
        return one, one / 2 + math.sqrt(3) / 2 * two
    if isinstance(oracle, Gradient) and oracle.coefficient_bound == 1:
        return one, one
    if isinstance(oracle, ProjectedStep) and oracle.gradient.coefficient_bound == 1:
        return one, one
    if isinstance(oracle, ProximalStep) and oracle.gradient.coefficient_bound == 1:
        return one, one
    raise InputError(
        f"no pair is known that saturates {oracle}; audit the gradient of the squared loss clipped "
        "at 1 or statistics of targets clipped at 1, or search its sensitivity with check_oracle"
    )


def opened(shards: Shards) -> Private:
    """Return all agents' records as a door takes them. For shards that the caller owns."""
    return Private(shards.stacked, jnp.asarray(shards.counts, shards.stacked.features.dtype))
