"""The public facts of a problem on packed shards, for planning."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tacit.checks import at_least, positive
from tacit.problems.problem import Problem
from tacit.problems.shards import Shards
from tacit.spec import Spec


def public_facts(problem: Problem, shards: Shards, *, clip: float) -> Spec:
    """Return the `Spec` of `problem` on `shards` when record coefficients are clipped at `clip`.

    Only shapes, counts and constants are read, never a record; see `facts_from`.
    """
    features = shards.stacked.features.shape[-1]
    norm = shards.record_norm
    return facts_from(problem, shards.counts, features=features, record_norm=norm, clip=clip)


def facts_from(
    problem: Problem, counts: Sequence[int], *, features: int, record_norm: float, clip: float
) -> Spec:
    """Return the `Spec` of `problem` without any shards: for planning ahead.

    With R the record norm and, for the loss, lipschitz constant l and smoothness s:
    c_1 = R min(l, clip), c_3 = s R^2 (the Hessian of f_i is a mean of x x' times at most s).

    Examples
    --------
    >>> from tacit.problems import Logistic, NoRegulariser, Problem, WholeSpace
    >>> problem = Problem(Logistic(), NoRegulariser(), WholeSpace())
    >>> facts_from(problem, [50, 50], features=3, record_norm=2.0, clip=0.5).gradient_bound
    1.0
    """
    clip = positive("clip", clip, allow_infinity=True)
    norm = positive("record_norm", record_norm)
    shape = problem.model_shape(at_least("features", features, 1))
    return Spec(
        counts=tuple(counts),
        shape=shape,
        record_norm=norm,
        gradient_bound=norm * min(problem.loss.lipschitz, clip),
        smoothness=problem.loss.smoothness * norm**2,
        regulariser_bound=problem.regulariser.gradient_bound(math.prod(shape)),
        regulariser_smoothness=float(problem.regulariser.smoothness),
    )
