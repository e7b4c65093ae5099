"""The questions whose computed answers are attacked, by name.

All but the noise inside an objective, for which no run without a seed is certified.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp

from tacit.audit.computed import Subject
from tacit.errors import InputError
from tacit.oracles import (
    Around,
    Centre,
    CentredGradient,
    Gradient,
    MinibatchDifference,
    MinibatchGradient,
    Oracle,
    Pair,
    Point,
    ProjectedStep,
    ProximalStep,
    Recentred,
    Residual,
    RowMean,
    Snapshot,
    Statistics,
    Step,
    TargetGradient,
    Targets,
)
from tacit.privacy import Gaussian, Mechanism, Relation, ReplaceOne, TargetChange, Unit
from tacit.problems import (
    Ball,
    ElasticNet,
    MultinomialLogistic,
    NoRegulariser,
    Problem,
    Simplex,
    Squared,
    WholeSpace,
)
from tacit.typing import HostArray, Precision, PyTree

CLIP, RATE, RHO, TOL, CLASSES = 1.0, 0.5, 1.0, 1e-9, 10
# how far one target moves, where features are public
BETA = 2.0
_LOSS = Squared()
_KAPPA = 0.3
_PROBLEM = Problem(_LOSS, NoRegulariser(), WholeSpace())
_ON_SIMPLEX = Problem(_LOSS, NoRegulariser(), Simplex(1.0))
_IN_BALL = Problem(_LOSS, ElasticNet(0.1, 0.1), Ball(1.0))
_STEP = ProximalStep(_PROBLEM, CLIP, RHO, 1.0, TOL)

ORACLES: dict[str, Callable[[int], Oracle]] = {
    "gradient": lambda _: Gradient(_LOSS, CLIP),
    "gradient, ten classes": lambda _: Gradient(MultinomialLogistic(CLASSES), 2.0),
    "mini-batch gradient": lambda _: MinibatchGradient(_LOSS, CLIP, RATE),
    "mini-batch difference": lambda _: MinibatchDifference(_LOSS, CLIP, 2 * CLIP, RATE),
    "snapshot": lambda _: Snapshot(_LOSS, CLIP),
    "statistics": lambda _: Statistics(1.0),
    "row mean": lambda _: RowMean(),
    "centred gradient": lambda _: CentredGradient(_LOSS, CLIP, 1.0, _KAPPA),
    "mini-batch gradient around a centre": lambda _: Recentred(
        MinibatchGradient(_LOSS, CLIP, RATE), 1.0, _KAPPA
    ),
    "proximal step around a centre": lambda _: Recentred(
        ProximalStep(_PROBLEM, CLIP, RHO, math.hypot(1.0, _KAPPA), TOL), 1.0, _KAPPA
    ),
    "projected step": lambda _: ProjectedStep(_PROBLEM, CLIP),
    "proximal step": lambda _: _STEP,
    "projected step, simplex": lambda _: ProjectedStep(_ON_SIMPLEX, CLIP),
    "proximal step, ball": lambda _: ProximalStep(_IN_BALL, CLIP, RHO, 1.0, TOL),
    "gradient, fixed batches": lambda m: MinibatchGradient(_LOSS, CLIP, RATE, records=m),
    "target gradient": lambda _: TargetGradient(),
    "residual": Residual,
    "targets": Targets,
}
FIXED = "gradient, fixed batches"
# those whose records are their targets
OF_TARGETS = ("target gradient", "residual", "targets")


def precisions_of(name: str) -> tuple[Precision, ...]:
    """Return the precisions that a plan of the question may have, the shortest first."""
    return ("float64",) if name in OF_TARGETS else ("float32", "float64")


def subject_named(
    name: str,
    records: int,
    relation: Relation,
    *,
    unit: Unit = "record",
    mechanism: Mechanism | None = None,
) -> Subject:
    """Return a subject of `ORACLES`, about so many records of an agent.

    Parameters
    ----------
    relation
        How neighbours differ; for a question about targets it is `TargetChange(BETA)` instead,
        and `ReplaceOne` for batches of a fixed size.
    unit, mechanism
        What is protected, and the noise: Gaussian if not given.

    Raises
    ------
    InputError
        If there is no such subject.
    """
    if name not in ORACLES:
        raise InputError(f"there is no oracle {name!r} to attack; choose from {', '.join(ORACLES)}")
    oracle = ORACLES[name](records)
    if name in OF_TARGETS:
        relation = TargetChange(BETA)
    elif name == FIXED:
        relation = ReplaceOne()
    problem = getattr(oracle, "problem", None)
    if problem is None:
        problem = Problem(getattr(oracle, "loss", _LOSS), NoRegulariser(), WholeSpace())
    return Subject(
        name=name,
        oracle=oracle,
        problem=problem,
        clip=float(getattr(oracle, "clip", CLIP)),
        relation=relation,
        ask=asks(oracle),
        unit=unit,
        mechanism=mechanism or Gaussian(),
    )


def asks(oracle: Oracle) -> Callable[[HostArray, HostArray], PyTree]:
    """Return the function from two arrays to a question of the kind that the oracle takes."""
    if isinstance(oracle, MinibatchDifference):
        return lambda x, anchor: Pair(jnp.asarray(x), jnp.asarray(anchor))
    if isinstance(oracle, CentredGradient):
        return lambda x, centre: Around(Point(jnp.asarray(x)), jnp.asarray(centre))
    if isinstance(oracle, Recentred):
        inner = asks(oracle.inner)
        return lambda x, centre: Around(inner(x, x), jnp.asarray(centre))
    if isinstance(oracle, ProximalStep):
        return lambda x, _: Centre(jnp.asarray(x))
    if isinstance(oracle, ProjectedStep):
        return _step
    return lambda x, _: Point(jnp.asarray(x))


def _step(point: HostArray, slope: HostArray) -> Step:
    ones = jnp.ones(len(point))
    return Step(jnp.asarray(point), jnp.asarray(slope), ones, ones)
