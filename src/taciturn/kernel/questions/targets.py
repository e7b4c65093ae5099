"""Questions about private targets with public features: linear equations x_j'z = y_j.

With the residuals r_j(z) = x_j'z - y_j of an agent's records there are these questions:

    TargetGradient   X'r(z), the gradient of sum_j r_j(z)^2 / 2 at the query
    Residual         r(z), at the query
    Targets          y, whatever the query, or at the step that the query names

Sums, not means: the equations of an agent are few and each counts.

**Neighbours.** Features are public and targets are protected: the relation must be
`TargetChange(beta)`, "one y_j moves by at most beta" (unit `agent`: all of them; unit `person`: all
of a person). A plan refuses any other relation: if a feature moves, the answer moves in proportion
to the query and the targets, which are unbounded.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
from typing_extensions import override

from taciturn import checks
from taciturn.kernel.questions.loss import Squared, clip_coefficient
from taciturn.kernel.questions.oracle import Answer, Assumptions, Count, Point, Question
from taciturn.kernel.records import Shard, Spec


class TargetQuestion(Question):
    """A question whose answer depends additively on private targets, equally at every query.

    Noise is added to the part with the targets; the public rest is added afterwards, so that no
    query can make the noise vanish in rounding.
    """

    sums_records: ClassVar[bool] = False
    protects_targets: ClassVar[bool] = True

    @abstractmethod
    def private_part(self, shard: Shard, count: Count, query: Any) -> Answer:
        """Return the part with the targets, to which noise is added."""

    def exact(self, shard: Shard, count: Count, query: Any) -> Answer:
        """Return both parts."""
        private, public = self.private_part(shard, count, query), self.public_part(shard, query)
        return private if public is None else private + public


class TargetGradient(TargetQuestion):
    """X'(Xz - y), the gradient of sum_j (x_j'z - y_j)^2 / 2.

    **Guarantee.** Noise is added to -X'y, whose bound is that of `target sums`
    (`taciturn.kernel.questions.bounds.target_sums`), whatever z: rows have norm at most R, enforced
    when they are packed, and targets are clipped to [-Y, Y] here.

    `target_bound`: Y, a public bound on |y|; larger targets are clipped.
    """

    assumptions: ClassVar[Assumptions] = Assumptions(Squared())

    target_bound: float = eqx.field(static=True, default=1e4)

    def __check_init__(self) -> None:
        checks.positive("target_bound", self.target_bound)

    @override
    def private_part(self, shard: Shard, count: Count, query: Point) -> Answer:
        """Return -X'y."""
        limited = clip_coefficient(shard.targets, self.target_bound)
        return -(shard.features.T @ (limited * shard.mask))

    def public_part(self, shard: Shard, query: Point) -> Answer:
        """Return X'Xz."""
        return shard.features.T @ ((shard.features @ query.x) * shard.mask)

    def facts(self, spec: Spec) -> dict[str, Any]:
        """Return R and Y."""
        return {"kind": "target sums", "row": spec.record_norm, "target": self.target_bound}


class _OfEachTarget(TargetQuestion):
    """One number for each target, 0 in padded places.

    `records`: M, the padded number of records of an agent, or of those at one step.
    """

    records: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        checks.at_least("records", self.records, 1)

    @override
    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return `(M,)`."""
        return (self.records,)

    @override
    def facts(self, spec: Spec) -> dict[str, Any]:
        """Return the facts of this many targets, all at one step."""
        return {"kind": "targets", "steps": 1, "targets": self.records}


class Targets(_OfEachTarget):
    """The targets themselves, 0 in padded places; to be asked once, or once for each step.

    With `steps` S a shard holds S blocks of M places, one block for each step, and the query is an
    `AtStep`; a target has the same place in every block. Without, the query is ignored.

    **Guarantee.** One number per target: the bound is that of `targets`
    (`taciturn.kernel.questions.bounds.targets`).

    - `steps`: S, or None for a single block.
    """

    steps: int | None = eqx.field(static=True, default=None)
    relative_multiplier: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        checks.at_least("steps", self.steps or 1, 1)

    @override
    def private_part(self, shard: Shard, count: Count, query: Any) -> Answer:
        """Return y, at the step of the query if there are steps."""
        held = shard.targets * shard.mask
        return held.reshape(self.steps, self.records)[query.step] if self.steps else held

    @override
    def facts(self, spec: Spec) -> dict[str, Any]:
        """Return S and M."""
        return {**super().facts(spec), "steps": self.steps or 1}


class Residual(_OfEachTarget):
    """The residuals x_j'z - y_j of an agent's records at the query, 0 in padded places.

    **Guarantee.** As for `Targets`, whatever z: x_j'z is public, so every answer is an estimate of
    the same y_j.
    """

    assumptions: ClassVar[Assumptions] = Assumptions(Squared())

    @override
    def private_part(self, shard: Shard, count: Count, query: Point) -> Answer:
        """Return -y."""
        return -shard.targets * shard.mask

    def public_part(self, shard: Shard, query: Point) -> Answer:
        """Return Xz."""
        return (shard.features @ query.x) * shard.mask
