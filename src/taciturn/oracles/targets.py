"""Questions about private targets beside public features: linear equations x_j'z = y_j.

With the residuals r_j(z) = x_j'z - y_j of an agent's records there are these questions:

    TargetGradient   X'r(z), the gradient of sum_j r_j(z)^2 / 2 at the query
    Residual         r(z), at the query
    Targets          y, whatever the query
    TargetsAt        y at the step of the query, where every step of a day has targets of its own

Sums, not means: the equations of an agent are few and each counts.

**What neighbouring means here.** Features are public, and what is protected is the target: the
relation must be `TargetChange(beta)`, "one y_j moves by at most beta" (unit `agent`: every one of
them; unit `person`: all of a person). Any other relation leaves the answers unbounded, and the plan
refuses: under it a feature may move, and then the answer moves with the size of the query and of
the targets, which nothing bounds.
"""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn import checks
from taciturn.oracles.oracle import Assumptions, AtStep, Oracle, Point
from taciturn.privacy import Adjacency, Norm, SensitivityBound, TargetChange
from taciturn.problems import Shard, Squared, clip_coefficient
from taciturn.spec import Spec
from taciturn.typing import Array


class TargetQuestion(Oracle):
    """A question whose answer moves with the targets alone, the same way at every query.

    Noise is added to the part with the targets; the rest of the answer is public and added after
    it, so that no query can drown the noise.
    """

    exact_on_machine: ClassVar[bool] = True
    sums_records: ClassVar[bool] = False
    protects_targets: ClassVar[bool] = True

    @override
    def exact(self, shard: Shard, count: Float[Array, ""], query: Any) -> Float[Array, "..."]:
        private, public = self.private_part(shard, count, query), self.public_part(shard, query)
        return private if public is None else private + public

    @abstractmethod
    def _change(self, spec: Spec, norm: Norm) -> tuple[float, str]:
        """Return how far one target that moves by 1 moves the answer, and why."""

    def _together(self, count: float, norm: Norm) -> float:
        """Return the factor if `count` targets move: by the triangle inequality, as many."""
        del norm
        return count

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        one, reason = self._change(spec, norm)
        changed = adjacency.changed(spec.counts)
        factor = np.array([self._together(count, norm) for count in changed])
        if adjacency.unit != "record":
            whose = "a person" if adjacency.unit == "person" else "an agent"
            reason += f", for all targets of {whose} at once"
        relation = adjacency.relation
        beta = relation.beta if isinstance(relation, TargetChange) else math.inf
        each = (beta * one * factor)[:, None, None]
        return SensitivityBound(np.broadcast_to(each, (spec.agents, 1, 1)), norm, adjacency, reason)


class TargetGradient(TargetQuestion):
    """X'(Xz - y), the gradient of sum_j (x_j'z - y_j)^2 / 2.

    **Guarantee.** If y_k moves by at most beta, the answer moves by beta |x_k|, whatever z: at most
    beta R in Euclidean norm, since packing enforces |x_k| <= R, and at most beta R sqrt(D) in the
    1-norm. Reached by the longest row. (For the sum of squares without the half, Ryu and Kim's
    (6.1), both gradient and bound are twice that; a published 2 beta leaves out |x_k|.) Noise is
    added to -X'y, whose sum over m targets of size at most Y is wrong by at most (m + 2) 2^-53 m R
    Y: twice that is in the bound.

    `target_bound`: Y, a public bound on |y|; larger targets are clipped.
    """

    target_bound: float = eqx.field(static=True, default=1e4)

    def __check_init__(self) -> None:
        checks.positive("target_bound", self.target_bound)

    @property
    @override
    def assumptions(self) -> Assumptions:
        return Assumptions(Squared())

    @override
    def private_part(
        self, shard: Shard, count: Float[Array, ""], query: Point
    ) -> Float[Array, " D"]:
        limited = clip_coefficient(shard.targets, self.target_bound)
        return -(shard.features.T @ (limited * shard.mask))

    @override
    def public_part(self, shard: Shard, query: Point) -> Float[Array, " D"]:
        return shard.features.T @ ((shard.features @ query.x) * shard.mask)

    @override
    def facts(self, spec: Spec) -> dict[str, Any]:
        return {"kind": "target sums", "row": spec.record_norm, "target": self.target_bound}

    @override
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        real = super().bound(spec, adjacency, norm=norm)
        counts = np.asarray(spec.counts, np.float64)[:, None, None]
        root = math.sqrt(spec.dimension) if norm == "l1" else 1.0
        size = counts * spec.record_norm * self.target_bound * root
        rounding = 2.0**-52 * (counts + 2) * size
        reason = f"{real.derivation}; and rounding, 2^-52 m (m + 2) R Y"
        return dataclasses.replace(real, value=real.value + rounding, derivation=reason)

    @override
    def _change(self, spec: Spec, norm: Norm) -> tuple[float, str]:
        root = math.sqrt(spec.dimension) if norm == "l1" else 1.0
        tail = " sqrt(D)" if norm == "l1" else ""
        return root * spec.record_norm, f"one target moves by beta: beta |x_k| <= beta R{tail}"


class _PerRecord(TargetQuestion):
    """One number per record: `records` is M, their padded number at an agent, or at one step."""

    records: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        checks.at_least("records", self.records, 1)

    @override
    def facts(self, spec: Spec) -> dict[str, Any]:
        return {"kind": "targets", "steps": 1, "targets": self.records}

    @override
    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return `(M,)`."""
        return (self.records,)

    @override
    def _change(self, spec: Spec, norm: Norm) -> tuple[float, str]:
        return 1.0, "one target moves by beta: so does one coordinate of the answer"

    @override
    def _together(self, count: float, norm: Norm) -> float:
        return count if norm == "l1" else math.sqrt(count)


class Residual(_PerRecord):
    """The residuals x_j'z - y_j of an agent's records at the query, 0 in padded places.

    **Guarantee.** If y_k moves by at most beta, coordinate k of the answer moves by as much and no
    other does, whatever z: beta in either norm. If every target of an agent moves by at most beta,
    the change is at most sqrt(m) beta in Euclidean norm and m beta in the 1-norm. All of it is
    reached. x_j'z is public, so every answer is an estimate of the same y_j.
    """

    @property
    @override
    def assumptions(self) -> Assumptions:
        return Assumptions(Squared())

    @override
    def private_part(
        self, shard: Shard, count: Float[Array, ""], query: Point
    ) -> Float[Array, " M"]:
        return -shard.targets * shard.mask

    @override
    def public_part(self, shard: Shard, query: Point) -> Float[Array, " M"]:
        return (shard.features @ query.x) * shard.mask


class Targets(_PerRecord):
    """The targets themselves, 0 in padded places; the query is ignored. To be asked once.

    **Guarantee.** As for `Residual`: one target that moves by beta moves one coordinate by beta.
    """

    @override
    def private_part(
        self, shard: Shard, count: Float[Array, ""], query: object
    ) -> Float[Array, " M"]:
        return shard.targets * shard.mask


class TargetsAt(_PerRecord):
    """The targets of the step that the query names, 0 in padded places; each step to be asked once.

    A shard holds T blocks of M places, one block for each of the T `steps`; the place within a
    block says whose target it is, and is the same in every block.

    **Guarantee.** Units have as many targets in every block: a person with K places has K / T, an
    agent with m targets m / T. So at most that many coordinates of an answer move, each by beta:
    sqrt(K / T) beta in Euclidean norm. What moves at the other steps is in the answers about them,
    which are answers of their own in the ledger. For a unit whose targets cannot lie so (their
    number is no multiple of T), all of them count as standing in the block that is asked for.
    """

    steps: int = eqx.field(static=True)
    relative_multiplier: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        checks.at_least("steps", self.steps, 1)

    @override
    def facts(self, spec: Spec) -> dict[str, Any]:
        return {**super().facts(spec), "steps": self.steps}

    @override
    def private_part(
        self, shard: Shard, count: Float[Array, ""], query: AtStep
    ) -> Float[Array, " M"]:
        held = (shard.targets * shard.mask).reshape(self.steps, self.records)
        return held[query.step]

    @override
    def _together(self, count: float, norm: Norm) -> float:
        at_once = count / self.steps if count % self.steps == 0 else min(count, self.records)
        return super()._together(at_once, norm)
