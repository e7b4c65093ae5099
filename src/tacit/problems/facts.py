"""The public facts of a problem on packed shards: what planning may know."""

from __future__ import annotations

import math

from tacit.checks import positive
from tacit.problems.problem import Problem
from tacit.problems.shards import Shards
from tacit.spec import Spec


def public_facts(problem: Problem, shards: Shards, *, clip: float) -> Spec:
    """Return the `Spec` of `problem` on `shards` when record coefficients are clipped at `clip`.

    With R the enforced record norm and, for the loss, lipschitz constant l and smoothness s:
    c_1 = R min(l, clip), c_3 = s R^2 (the Hessian of f_i is a mean of x x' times at most s).

    Only shapes, counts and constants are read, never a record.
    """
    clip = positive("clip", clip, allow_infinity=True)
    shape = problem.model_shape(shards.stacked.features.shape[-1])
    norm = shards.record_norm
    return Spec(
        counts=shards.counts,
        shape=shape,
        record_norm=norm,
        gradient_bound=norm * min(problem.loss.lipschitz, clip),
        smoothness=problem.loss.smoothness * norm**2,
        regulariser_bound=problem.regulariser.gradient_bound(math.prod(shape)),
        regulariser_smoothness=problem.regulariser.smoothness,
    )
