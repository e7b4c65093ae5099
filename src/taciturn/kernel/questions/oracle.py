"""The interface of a question to private data, and the checks that every question must pass.

A question is stateless and states three things: the exact answer (`exact`, `answer_shape`), the
records that take part (`sampling`) and where the noise is added (`noise`). Everything after the
noise is post-processing, so these three and the sensitivity bound decide the privacy of a method.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel import privacy
from taciturn.kernel.questions.bounds import bound_of
from taciturn.kernel.questions.claims import custom_classes, from_library, name_of_class
from taciturn.kernel.questions.loss import Loss
from taciturn.kernel.questions.sampling import (
    LAWS,
    AllRecords,
    Drawn,
    Exact,
    PoissonBatches,
    Sampling,
)
from taciturn.kernel.records import Shard, Spec
from taciturn.typing import Array

Answer: TypeAlias = Float[Array, "..."]
Count: TypeAlias = Float[Array, ""]


class Point(NamedTuple):
    """A question about f_i at one point: `x`, of the model's shape."""

    x: Float[Array, "..."]


class Centre(NamedTuple):
    """A question about the minimiser of f_i near `v`, of the model's shape."""

    v: Float[Array, "..."]


def check_form(query: Any, kind: type, **shapes: tuple[int, ...]) -> None:
    """Raise `InputError` unless a query is of this kind, with float parts of these shapes.

    **Guarantee.** A bound holds at every query of its form, and methods may pass anything: with a
    step size for each entry, or a point for each record, the question would be a different one.
    """
    parts: dict[str, Any] = {}
    if type(query) is kind:
        parts = {name: getattr(query, name, None) for name in shapes}
    right = parts.keys() == shapes.keys()
    for name, part in parts.items():
        number = getattr(part, "dtype", None)
        right &= number is not None and bool(jnp.issubdtype(number, jnp.floating))
        right &= np.shape(part) == shapes[name]
    if not right:
        form = ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
        raise InputError(
            f"this question is asked with a {kind.__name__} ({form}) of floating numbers, and the "
            f"method asks with a {type(query).__name__}; ask with that"
        )


class AtStep(NamedTuple):
    """A question about one step, counted from 0; one beyond the last means the last."""

    step: Int[Array, ""]


# the most lattice steps of an answer; see `taciturn.kernel.privacy.mechanisms`
_MOST_STEPS = 2.0**51


class OnLattice(NamedTuple):
    """Noise on a lattice.

    `values` are whole multiples of `step`, h, a power of two. `step` is None in a run without
    noise, whose answers are not rounded.
    """

    values: Float[Array, "..."]
    step: Float[Array, ""] | None

    def added_to(self, exact: Float[Array, "..."]) -> Answer:
        """Return the answer, rounded to the lattice, plus the noise.

        **Guarantee.** If two answers differ by t, their roundings differ by at most t + 2 h per
        entry, whatever the division before (`privacy.mechanisms`). Answers are clipped to 2^51
        steps. Every entry has separate noise: `InputError` if answer and noise differ in shape,
        since equal noise on two entries reveals their difference exactly.
        """
        if jnp.shape(exact) != self.values.shape:
            raise InputError(
                f"an answer has shape {jnp.shape(exact)} and its noise {self.values.shape}, so "
                "that entries would share their noise; let answer_shape return the shape of exact"
            )
        if self.step is None:
            return exact + self.values
        steps = jnp.rint(jnp.asarray(exact, jnp.float64) / self.step)
        limited = jnp.clip(jnp.nan_to_num(steps), -_MOST_STEPS, _MOST_STEPS)
        return limited * self.step + self.values


class AddedNoise(eqx.Module):
    """Noise that is added to the exact answer.

    - `relative_multiplier`: The noise multiplier of these answers relative to that of the plan.
    - `adds`: Whether the noised answer is the exact one plus noise, so that the noises of several
      agents add up in a sum.
    """

    adds: ClassVar[bool] = True

    relative_multiplier: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        checks.positive("relative_multiplier", self.relative_multiplier)

    def shape(self, answer_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the noise of one answer."""
        return answer_shape

    def law(self, spec: Spec, adjacency: privacy.Adjacency) -> privacy.Inside | None:
        """Return the parameters of the law of the noised answer; None if the noise has it."""
        del spec, adjacency
        return None

    def answer(
        self, exact: Exact, shard: Shard, count: Array, query: Any, noise: OnLattice
    ) -> Array:
        """Return the noised answer, given a function for the exact one."""
        return noise.added_to(exact(shard, count, query))


class ObjectiveNoise(eqx.Module):
    """Noise as a linear term b'w in the objective, and a little output noise on the minimiser.

    The proximal step at the centre v - b / rho is released with N(0, (output_noise scale / rho)^2
    I) added, which covers its residual; all in double precision. `tol` is that residual, relative
    to c_1 / rho, and `smoothness` s R^2, that of one record's loss.

    **Guarantee.** `taciturn.kernel.questions.PerturbedStep` derives the law: a curve with the
    parameters J = log(1 + s R^2 / (m_i rho)) and 2 m_i tol / output_noise. It is known for the unit
    record only.
    """

    adds: ClassVar[bool] = False
    relative_multiplier: ClassVar[float] = 1.0

    rho: float = eqx.field(static=True)
    smoothness: float = eqx.field(static=True)
    tol: float = eqx.field(static=True)
    output_noise: float = eqx.field(static=True)

    def shape(self, answer_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the noise of one answer: twice that of the answer."""
        return (2, *answer_shape)

    def law(self, spec: Spec, adjacency: privacy.Adjacency) -> privacy.Inside:
        """Return J and the ratio of every agent."""
        if adjacency.unit != "record":
            raise InputError(
                "the law of noise inside an objective is known here for one record, not for all "
                f"records of {'a person' if adjacency.unit == 'person' else 'an agent'}; add the "
                "noise to the output (ProximalStep)"
            )
        counts = np.asarray(spec.counts, dtype=np.float64)
        jacobian = np.log1p(self.smoothness / (counts * self.rho))
        return privacy.Inside(jacobian, 2 * counts * self.tol / self.output_noise)

    def answer(
        self, exact: Exact, shard: Shard, count: Array, query: Centre, noise: OnLattice
    ) -> Array:
        """Return the exact step at v - b / rho, plus the noise on the output."""
        # in single precision, rounding would exceed the residual that the output noise covers
        shard, count, query, wide = jax.tree.map(
            lambda leaf: jnp.asarray(leaf, jnp.float64), (shard, count, query, noise.values)
        )
        inside, outside = wide / self.rho
        minimiser = exact(shard, count, Centre(query.v - inside))
        answer: Array = minimiser + self.output_noise * outside
        return answer


NoisePlacement: TypeAlias = AddedNoise | ObjectiveNoise
PLACEMENTS = (AddedNoise, ObjectiveNoise)


class Assumptions(NamedTuple):
    """The assumptions of a question; None where there is none.

    - `loss`: The loss, which the method must minimise.
    - `coefficient_bound`: Of a mean of record gradients, the bound enforced on a record's
      coefficient, min(lipschitz, clip), from which gradient bound and smoothness in the public
      facts must follow.
    - `record_norm`: The bound on a record's norm.
    - `rho`: Of a proximal step, its curvature: the method's ADMM parameter.
    """

    loss: Loss | None = None
    coefficient_bound: float | None = None
    record_norm: float | None = None
    rho: float | None = None


class Oracle(eqx.Module):
    """A question to one agent's records.

    A custom question defines `exact`, `bound` and `exact_on_machine`. By default it is asked of all
    records, its answer has the model's shape, and noise is added to the answer. Its bound is a
    claim of its author (`claims`), whom certificates name.

    - `sums_records`: Whether answers are sums over records, whose rows are then truncated to the
      digits at which `margins` and `record_sum` (`taciturn.kernel.questions.sums`) are exact.
    - `protects_targets`: Whether the answer depends on private targets and public features, so that
      it is bounded under `TargetChange` and targets are stored in double precision.
    """

    sums_records: ClassVar[bool] = True
    protects_targets: ClassVar[bool] = False

    def __check_init__(self) -> None:
        checks.positive("relative_multiplier", self.relative_multiplier)

    @abstractmethod
    def exact(self, shard: Shard, count: Count, query: Any) -> Answer:
        """Return the answer without noise; on batches it must be a sum over the records.

        The shard holds one agent's padded records, or a batch of them. `count` is the agent's
        public number of records m_i, and `query` is public.
        """

    @abstractmethod
    def bound(
        self, spec: Spec, adjacency: privacy.Adjacency, *, norm: privacy.Norm
    ) -> privacy.SensitivityBound:
        """Return how far the answer can move between neighbouring data sets, `(A, 1, 1)`.

        It must hold at every query and on every batch: queries follow from earlier answers.
        """

    @property
    @abstractmethod
    def exact_on_machine(self) -> bool:
        """Whether `bound` holds for the computed answers, rounding included.

        Every custom class states it; it is not inherited. Where it does not hold, a run needs a
        seed and is a reproduction.
        """

    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of an answer, given that of the model: here the same."""
        return model_shape

    @property
    def assumptions(self) -> Assumptions:
        """What the method and the public facts must agree with; here nothing."""
        return Assumptions()

    @property
    def relative_multiplier(self) -> float:
        """The noise multiplier of these answers relative to that of the plan."""
        return 1.0

    @property
    def sampling(self) -> Sampling:
        """Which records take part in an answer; here all."""
        return AllRecords()

    @property
    def noise(self) -> NoisePlacement:
        """Where the noise is added; here to the exact answer."""
        return AddedNoise(self.relative_multiplier)

    def private_part(self, shard: Shard, count: Count, query: Any) -> Answer:
        """Return the part of the answer that noise is added to: here all of it."""
        return self.exact(shard, count, query)

    def public_part(self, shard: Shard, query: Any) -> Answer | None:
        """Return the rest of the answer, a function of public features; here None.

        It is added after the noise, so that no query can make it large enough for the noise to be
        lost in rounding. A plan refuses it under any relation but `TargetChange`, and it is
        computed on records without their targets.
        """
        del shard, query
        return None

    @final
    def claims(self) -> tuple[str, ...]:
        """Return the names, `module:Class`, of custom classes on which the bound rests.

        **Guarantee.** These are all classes of the question and its parts that are not the
        library's, except a loss of which the question enforces all that the bound needs.
        """
        ours = isinstance(self, Question) and _is_ours(type(self)) and self.holds_for_any_loss
        return tuple(map(name_of_class, custom_classes(self, losses=not ours)))

    @final
    def stated(self, spec: Spec) -> dict[str, Any]:
        """Return what a certificate states about the question: its facts, or the authors' claim."""
        claims = Oracle.claims(self)
        if claims or not isinstance(self, Question):
            return {"kind": "claimed", "by": list(claims)}
        return self.facts(spec)

    @final
    def holds_on_machine(self) -> bool:
        """Return `exact_on_machine` as stated by the library or by the class itself."""
        stated = _is_ours(type(self)) or "exact_on_machine" in vars(type(self))
        return stated and self.exact_on_machine

    @final
    def takes_narrow_rows(self) -> bool:
        """Return whether rows may be stored in single precision, where that holds all their digits.

        This holds for the library's sums over widened rows (`over_rows`, gathered batches).
        """
        return isinstance(self, Question) and _is_ours(type(self)) and self.reads_over_rows

    @final
    def unnoised(self, shard: Shard, drawn: Drawn | None, count: Count, query: Any) -> Answer:
        """Return the answer without noise on a batch of `sampling`; None for all records."""
        return self.sampling.answer(self.exact, shard, drawn, count, query)

    @final
    def answer(
        self, shard: Shard, drawn: Drawn | None, count: Count, query: Any, noise: OnLattice
    ) -> Answer:
        """Return the noised answer on a batch of `sampling`; None for all records."""

        def private(shard: Shard, count: Count, query: Any) -> Answer:
            return self.sampling.answer(self.private_part, shard, drawn, count, query)

        noised = self.noise.answer(private, shard, count, query, noise)
        # targets are protected, so the public part must not see them
        public = dataclasses.replace(shard, targets=jnp.zeros_like(shard.targets))
        known = self.public_part(public, query)
        return noised if known is None else noised + known

    @final
    def check(
        self,
        spec: Spec,
        adjacency: privacy.Adjacency,
        *,
        norm: privacy.Norm,
        loss: Loss | None = None,
        rho: float | None = None,
    ) -> None:
        r"""Raise `InputError` unless the question suits method, public facts and accountant.

        `loss` is what the method minimises, `rho` the curvature of its proximal steps; None where
        it states none.

        **Guarantee.** `bound` is a property of this question, whatever the public facts are. But
        schedules follow from the public facts, so with wrong ones the run would optimise something
        else. And with more columns in the model than the loss has margins, the coefficient of a
        record would act on the rows of others.

        The accountant of Poisson batches assumes under replace_one a sum whose terms have norm at
        most Delta / 2: one record's term against another's, both around the answer without them.
        The bound under zero_out is that of one term, :math:`\Delta_0`. If Delta were below
        :math:`2 \Delta_0`, terms longer than Delta / 2 could occur, whose tails are not covered:
        for terms in [0, 1], Delta = 1, and the pair (absent or 1, absent or 0) leaks more than the
        pair (absent or 1/2, absent or -1/2) that would be accounted for. (With fixed sizes any two
        answers at that distance are covered.)
        """
        _check_assumptions(type(self).__name__, self.assumptions, spec, loss, rho)
        _check_law(self, adjacency)
        self.sampling.check(spec, adjacency)
        poisson = isinstance(self.sampling, PoissonBatches) and self.sampling.rate < 1
        if poisson and isinstance(adjacency.relation, privacy.ReplaceOne):
            replaced, zeroed = (
                self.bound(spec, privacy.Adjacency(relation, "record"), norm=norm).value
                for relation in (privacy.ReplaceOne(), privacy.ZeroOut())
            )
            if not np.all(replaced >= 2 * zeroed * (1 - 1e-12)):
                raise InputError(
                    f"{type(self).__name__} bounds a replaced record by less than twice a zeroed "
                    "one, for which no accountant of sampled answers is known; return twice the "
                    "bound of zero_out"
                )


class Question(Oracle):
    """A question of this library, with facts from which its bound follows.

    - `holds_for_any_loss`: Whether `bound` rests on no property of the loss, because the question
      enforces all that it needs.
    - `reads_over_rows`: Whether only `over_rows` and gathered batches read rows.
    """

    exact_on_machine: ClassVar[bool] = True
    holds_for_any_loss: ClassVar[bool] = True
    reads_over_rows: ClassVar[bool] = False

    @abstractmethod
    def facts(self, spec: Spec) -> dict[str, Any]:
        """Return the kind of this question and the public numbers that determine its bound.

        Names are those of docs/reference/certificate.md. Raises `InputError` if the question cannot
        be asked under these public facts.
        """

    def bound(
        self, spec: Spec, adjacency: privacy.Adjacency, *, norm: privacy.Norm
    ) -> privacy.SensitivityBound:
        """Return how far the answer can move, `(A, 1, 1)`: `bound_of` its facts."""
        return bound_of(self.facts(spec), spec, adjacency, norm, self.sampling)


def _is_ours(kind: type) -> bool:
    """Return whether a question is on the closed list `KINDS`, and unmodified."""
    from taciturn.kernel.questions import KINDS  # noqa: PLC0415 - it lists what builds on this file

    return kind in KINDS and from_library(kind)


# these decide how an answer is noised and checked: no question may override them
_FINAL = (
    "answer", "unnoised", "check", "claims", "holds_on_machine", "stated", "takes_narrow_rows",
)  # fmt: skip


def _check_law(oracle: Oracle, adjacency: privacy.Adjacency) -> None:
    """Raise unless batches and noise follow the laws that are accounted for."""
    kind, wrong = type(oracle), ""
    changed = [name for name in _FINAL if getattr(kind, name) is not getattr(Oracle, name)]
    whole = kind.public_part is Oracle.public_part
    for what, law, laws in (
        ("noise", oracle.noise, PLACEMENTS),
        ("batches", oracle.sampling, LAWS),
    ):
        if type(law) not in laws or not from_library(type(law)):
            names = ", ".join(known.__name__ for known in laws)
            wrong = f"has custom {what}, which no accountant knows; give one of {names}"
    if changed:
        wrong = (
            f"overrides {', '.join(changed)}, which decide how an answer is noised and checked; "
            "leave them as Oracle has them"
        )
    elif not whole and not isinstance(adjacency.relation, privacy.TargetChange):
        wrong = wrong or (
            f"adds its public_part after the noise, and under {adjacency.relation.name} records "
            "are what is protected, features included, so that no part of an answer is public; "
            "return all of it from exact, or use the relation TargetChange"
        )
    if wrong:
        raise InputError(f"{kind.__name__} {wrong}")


def _check_assumptions(
    name: str, assumed: Assumptions, spec: Spec, loss: Loss | None, rho: float | None
) -> None:
    if None not in (rho, assumed.rho) and rho != assumed.rho:
        raise InputError(
            f"{name} has rho {assumed.rho:g}, the algorithm {rho:g}; give both the same rho"
        )
    if assumed.loss is not None:
        if loss is not None and not (type(assumed.loss) is type(loss) and assumed.loss == loss):
            raise InputError(
                f"{name} asks about the loss {assumed.loss!r}, the algorithm minimises {loss!r}; "
                "give both the same loss"
            )
        outputs = assumed.loss.outputs
        needed = spec.shape[:1] if outputs is None else (spec.shape[0], outputs)
        if spec.shape != needed:
            raise InputError(
                f"the model has shape {spec.shape}; {type(assumed.loss).__name__} needs {needed}: "
                "take the public facts from the same problem"
            )
    if assumed.record_norm not in (None, spec.record_norm):
        raise InputError(
            f"the public facts promise record norm {spec.record_norm:g}, {name} assumes "
            f"{assumed.record_norm:g}; give both the same bound"
        )
    if assumed.coefficient_bound is not None:
        _check_gradients(name, assumed, spec.record_norm * assumed.coefficient_bound, spec)


def _check_gradients(name: str, assumed: Assumptions, largest: float, spec: Spec) -> None:
    if spec.gradient_bound != largest:
        raise InputError(
            f"the public facts assume record gradients of norm {spec.gradient_bound:g}, {name} "
            f"allows {largest:g}; give both the same clip and the same record norm"
        )
    smoothness = assumed.loss.smoothness * spec.record_norm**2 if assumed.loss else spec.smoothness
    if spec.smoothness != smoothness:
        raise InputError(
            f"the public facts assume gradients with Lipschitz constant {spec.smoothness:g}, those "
            f"of {assumed.loss!r} have {smoothness:g}; take the public facts from the same problem"
        )
