"""An audit problem on which the sensitivity bound is attained in every round."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from tacit.door import Private
from tacit.oracles import Gradient
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

FAR = 1e4


@dataclass(frozen=True)
class Canary:
    """Two neighbouring data sets whose exact answers differ by the whole bound at every query.

    Agent 0 holds one record e_1 (a unit vector) with target -FAR in `first` and +FAR in `second`.
    Under the squared loss with the coefficient clipped at 1, its record gradient is +e_1 and -e_1
    as long as the margin stays within FAR - 1 of zero: the mean gradient moves by 2/m, the
    replace-one bound, wherever it is asked. A logistic loss would reach only half of its bound at
    ordinary iterates.
    """

    problem: Problem
    oracle: Gradient
    spec: Spec
    first: Shards
    second: Shards


def canary(*, agents: int, records: int, features: int, seed: int) -> Canary:
    """Return the pair: each of the agents holds `records` unit-norm records of `features`."""
    draw = np.random.default_rng(seed)
    rows = draw.standard_normal((agents * records, features))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[0] = np.eye(features)[0]
    targets = np.sign(draw.standard_normal(agents * records)) * FAR
    targets[0] = -FAR
    parts = np.split(np.arange(agents * records), agents)
    first = pack(rows, targets, parts, record_norm=1.0, precision="float64", enforce="clip")
    second = replace_record(first, 0, 0, rows[0], FAR)
    problem = Problem(Squared(), NoRegulariser(), WholeSpace())
    oracle = Gradient(problem.loss, clip=1.0)
    return Canary(problem, oracle, public_facts(problem, first, clip=1.0), first, second)


def opened(shards: Shards) -> Private:
    """Return all agents' records as a door takes them. For shards that the caller owns."""
    return Private(shards.stacked, jnp.asarray(shards.counts, shards.stacked.features.dtype))
