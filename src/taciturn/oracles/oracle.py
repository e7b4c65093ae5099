"""Oracles: the questions that algorithms may put to private data, and their sensitivity.

An oracle is stateless and says three things: the question (`exact`, `bound`, `answer_shape`), how
it samples (`sampling`) and where its noise stands (`noise`). Everything after the noise is
post-processing, so these three decide the privacy of a method.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from typing_extensions import override

from taciturn import checks, privacy
from taciturn.errors import InputError
from taciturn.oracles.claims import from_library, name_of_class, own_parts
from taciturn.oracles.sampling import LAWS, AllRecords, Drawn, Exact, PoissonBatches, Sampling
from taciturn.problems import Loss, Shard
from taciturn.spec import Spec
from taciturn.typing import Array


class Point(NamedTuple):
    """A question about f_i at one point: `x`, of the model's shape."""

    x: Float[Array, "..."]


class Centre(NamedTuple):
    """A question about the point near `v` at which f_i is small: `v`, of the model's shape."""

    v: Float[Array, "..."]


class AtStep(NamedTuple):
    """A question about one step, counted from 0; one beyond the last means the last."""

    step: Int[Array, ""]


# whole numbers up to here are added to noise; see `taciturn.privacy.mechanisms`
_MOST_STEPS = 2.0**51


class OnLattice(NamedTuple):
    """Noise, and the lattice that it stands on.

    Attributes
    ----------
    values
        The noise, in the units of the answer: whole multiples of the step.
    step
        h, a power of two; None in a run without noise, whose answers are not rounded.
    """

    values: Float[Array, "..."]
    step: Float[Array, ""] | None

    def added_to(self, exact: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the answer, rounded to the lattice, plus the noise.

        **Guarantee.** Where two answers differ by t, their roundings differ by at most t + 2 h per
        entry, however the answers were divided: see `privacy.mechanisms`. Beyond 2^51 steps an
        answer stays at the last of them. Every entry has noise of its own: `InputError` if answer
        and noise differ in shape, since one number of noise on two entries tells the difference
        between them exactly.
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


class NoisePlacement(eqx.Module):
    """Where the noise stands, and what decides the law of the noised answer.

    `adds`: whether the noised answer is the exact one plus noise: only then can the noises of
    several agents add up in a sum.
    """

    adds: ClassVar[bool]

    @property
    def relative_multiplier(self) -> float:
        """The noise multiplier of these answers over that of the plan: in ledger and scales."""
        return 1.0

    @abstractmethod
    def shape(self, answer_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the noise of one answer."""

    @abstractmethod
    def law(self, spec: Spec, adjacency: privacy.Adjacency) -> privacy.Inside | None:
        """Return what decides the law; None if it is that of the added noise."""

    @abstractmethod
    def answer(
        self, exact: Exact, shard: Shard, count: Array, query: Any, noise: OnLattice
    ) -> Array:
        """Return the noised answer; `exact` computes the answer without noise, of any shape."""


class AddedNoise(NoisePlacement):
    """The noise is added to the exact answer."""

    adds: ClassVar[bool] = True

    relative_multiplier: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        checks.positive("relative_multiplier", self.relative_multiplier)

    @override
    def shape(self, answer_shape: tuple[int, ...]) -> tuple[int, ...]:
        return answer_shape

    @override
    def law(self, spec: Spec, adjacency: privacy.Adjacency) -> None:
        return None

    @override
    def answer(
        self, exact: Exact, shard: Shard, count: Array, query: Any, noise: OnLattice
    ) -> Array:
        return noise.added_to(exact(shard, count, query))


class ObjectiveNoise(NoisePlacement):
    """A noised linear term b'w in what is minimised, and a little noise on the minimiser.

    The exact proximal step at the centre v - b / rho is released with N(0, (output_noise scale /
    rho)^2 I) on top, which covers its residual, all of it in double precision. `tol` is that
    residual, relative to c_1 / rho, and `smoothness` s R^2, that of one record's loss.

    **Guarantee.** See `taciturn.oracles.PerturbedStep`, which derives the law: a curve, decided by
    J = log(1 + s R^2 / (m_i rho)) and the ratio 2 m_i tol / output_noise. It is known for the unit
    record only.
    """

    adds: ClassVar[bool] = False

    rho: float = eqx.field(static=True)
    smoothness: float = eqx.field(static=True)
    tol: float = eqx.field(static=True)
    output_noise: float = eqx.field(static=True)

    @override
    def shape(self, answer_shape: tuple[int, ...]) -> tuple[int, ...]:
        return (2, *answer_shape)

    @override
    def law(self, spec: Spec, adjacency: privacy.Adjacency) -> privacy.Inside:
        if adjacency.unit != "record":
            raise InputError(
                "the law of noise inside an objective is known here for one record, not for all "
                f"records of {'a person' if adjacency.unit == 'person' else 'an agent'}; add the "
                "noise to the output (ProximalStep)"
            )
        counts = np.asarray(spec.counts, dtype=np.float64)
        jacobian = np.log1p(self.smoothness / (counts * self.rho))
        return privacy.Inside(jacobian, 2 * counts * self.tol / self.output_noise)

    @override
    def answer(
        self, exact: Exact, shard: Shard, count: Array, query: Centre, noise: OnLattice
    ) -> Array:
        # in single precision rounding would exceed the residual that the output noise covers
        shard, count, query, wide = jax.tree.map(
            lambda leaf: jnp.asarray(leaf, jnp.float64), (shard, count, query, noise.values)
        )
        inside, outside = wide / self.rho
        minimiser = exact(shard, count, Centre(query.v - inside))
        answer: Array = minimiser + self.output_noise * outside
        return answer


PLACEMENTS = (AddedNoise, ObjectiveNoise)
# the methods that compute an answer, and those that no question may define
_ANSWERS = ("exact", "private_part", "public_part")
_FINAL = (
    "answer", "unnoised", "check", "claims", "holds_on_machine", "stated", "takes_narrow_rows",
)  # fmt: skip


class Assumptions(NamedTuple):
    """What a question assumes; None where it assumes nothing.

    Attributes
    ----------
    loss
        The loss of the question: the method must minimise the same one.
    coefficient_bound
        Of a question about the mean of record gradients: the bound that it enforces on a record's
        coefficient, min(lipschitz, clip). Record gradients and smoothness in the public facts must
        follow from it and from the loss.
    record_norm
        The bound on a record's norm that the question uses.
    rho
        Of a proximal step: its curvature, which is the method's ADMM parameter.
    """

    loss: Loss | None = None
    coefficient_bound: float | None = None
    record_norm: float | None = None
    rho: float | None = None


class Oracle(eqx.Module):
    """A question to one agent's records.

    A new question defines `exact`, `bound` and `exact_on_machine`. By default it is asked of all
    records, its answer has the model's shape, and noise is added to the answer. The bound of a
    question that is not the library's is its author's claim (`claims`): certificates name it.

    Attributes
    ----------
    sums_records
        Whether answers are sums over records: their rows are then cut to the digits at which
        `margins` and `record_sum` (`taciturn.oracles.sums`) are exact.
    reads_over_rows
        Whether the methods that this class defines read rows through `over_rows` or in gathered
        batches alone: rows may then be kept in single precision, where that holds all digits. It is
        not inherited by a class that defines one of them anew.
    holds_for_any_loss
        Whether `bound` rests on no property of the loss, because the question enforces what it
        needs of it.
    protects_targets
        Whether the answer moves with targets alone, and features are public: it is then bounded
        under `TargetChange`, and targets are kept in double precision.
    """

    sums_records: ClassVar[bool] = True
    reads_over_rows: ClassVar[bool] = False
    holds_for_any_loss: ClassVar[bool] = False
    protects_targets: ClassVar[bool] = False

    def __check_init__(self) -> None:
        checks.positive("relative_multiplier", self.relative_multiplier)

    @abstractmethod
    def exact(self, shard: Shard, count: Float[Array, ""], query: Any) -> Float[Array, "..."]:
        """Return the answer without noise; on batches it must be a sum over the records.

        The shard holds one agent's padded records, or those of a batch; only a door may pass one.
        `count` is the agent's public number of records m_i, `query` the algorithm's, public.
        """

    @abstractmethod
    def bound(
        self, spec: Spec, adjacency: privacy.Adjacency, *, norm: privacy.Norm
    ) -> privacy.SensitivityBound:
        """Return how far the answer can move between neighbouring data sets, `(A, 1, 1)`.

        It must hold at every query and on every batch: queries follow from earlier answers.
        """

    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of an answer, given that of the model: here the same."""
        return model_shape

    def facts(self, spec: Spec) -> dict[str, Any]:
        """Return the kind of this question and the public numbers that its bound follows from.

        Under the names that docs/reference/certificate.md has for them; as here, nothing, for a
        question whose bound is known to its author alone.
        """
        del spec
        return {"kind": "claimed"}

    @final
    def stated(self, spec: Spec) -> dict[str, Any]:
        """Return what a certificate states of the question: its facts, or whose claim it is."""
        claims = Oracle.claims(self)
        return {"kind": "claimed", "by": list(claims)} if claims else self.facts(spec)

    @property
    def assumptions(self) -> Assumptions:
        """What the algorithm and the public facts must agree with; here nothing."""
        return Assumptions()

    @property
    @abstractmethod
    def exact_on_machine(self) -> bool:
        """Whether `bound` holds for the answers that are computed, rounding included.

        Every question states it, for the class or as a property. Where it does not hold, a run
        needs a seed and is a reproduction.
        """

    @property
    def relative_multiplier(self) -> float:
        """The noise multiplier of these answers over that of the plan's others."""
        return 1.0

    @property
    def sampling(self) -> Sampling:
        """Which records take part in an answer; here all."""
        return AllRecords()

    @property
    def noise(self) -> NoisePlacement:
        """Where the noise stands; here it is added to the exact answer."""
        return AddedNoise(self.relative_multiplier)

    @final
    def holds_on_machine(self) -> bool:
        """Return `exact_on_machine`, if it was stated of the answer as it is computed.

        **Guarantee.** What a class of the library states does not hold for a subclass of somebody
        else's that computes the answer anew and states nothing.
        """
        kinds = type(self).__mro__
        stated, *defined = (
            next(place for place, kind in enumerate(kinds) if name in vars(kind))
            for name in ("exact_on_machine", *_ANSWERS)
        )
        own = (place for place in defined if not from_library(kinds[place]))
        return self.exact_on_machine and all(stated <= place for place in own)

    @final
    def claims(self) -> tuple[str, ...]:
        """Return the names, `module:Class`, of classes on whose authors' word the bound rests.

        **Guarantee.** Every class, of the question and of all that it holds, that is not the
        library's, but for a loss whose question enforces all that the bound needs of it.
        """
        foreign = own_parts(self)
        if self.holds_for_any_loss and from_library(type(self)):
            foreign = tuple(kind for kind in foreign if not issubclass(kind, Loss))
        return tuple(map(name_of_class, foreign))

    @final
    def takes_narrow_rows(self) -> bool:
        """Return whether rows may be kept in single precision, where that holds all their digits.

        For questions about a vector: with several outputs products take longer than reading.

        **Guarantee.** Every method that sees rows must say so in the class that defines it: one
        that is defined anew, and might add rows up as they come, is given double precision.
        """

        def says_so(method: str) -> bool:
            definer = next(kind for kind in type(self).__mro__ if method in vars(kind))
            return definer is Oracle or bool(vars(definer).get("reads_over_rows", False))

        loss = self.assumptions.loss
        return loss is not None and loss.outputs is None and all(map(says_so, _ANSWERS))

    @final
    def unnoised(
        self, shard: Shard, drawn: Drawn | None, count: Float[Array, ""], query: Any
    ) -> Float[Array, "..."]:
        """Return the answer without noise on a batch of `sampling`; None for all records."""
        return self.sampling.answer(self.exact, shard, drawn, count, query)

    @final
    def answer(
        self,
        shard: Shard,
        drawn: Drawn | None,
        count: Float[Array, ""],
        query: Any,
        noise: OnLattice,
    ) -> Float[Array, "..."]:
        """Return the noised answer on a batch of `sampling`; None for all records."""

        def private(shard: Shard, count: Float[Array, ""], query: Any) -> Float[Array, "..."]:
            return self.sampling.answer(self.private_part, shard, drawn, count, query)

        noised = self.noise.answer(private, shard, count, query, noise)
        # what is protected there are the targets
        public = dataclasses.replace(shard, targets=jnp.zeros_like(shard.targets))
        known = self.public_part(public, query)
        return noised if known is None else noised + known

    def private_part(
        self, shard: Shard, count: Float[Array, ""], query: Any
    ) -> Float[Array, "..."]:
        """Return what noise is added to: here the whole answer."""
        return self.exact(shard, count, query)

    def public_part(self, shard: Shard, query: Any) -> Float[Array, "..."] | None:
        """Return the rest of the answer, which no record that is protected has a part in.

        It is added after the noise, so that a query cannot drown the noise in it. None, as here,
        for nothing. Only where features are public is there such a part: a plan refuses it under
        any relation but `TargetChange`, and it is computed on records without their targets.
        """
        del shard, query
        return None

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

        The loss is what the method minimises, rho the curvature of the proximal steps that it asks
        for; None where it does not say.

        **Guarantee.** `bound` is a number of this question, whatever the public facts say. But
        schedules follow from the public facts: with others the run would optimise something else.
        A model with more columns than the loss has margins would be worse: the coefficient of a
        record would reach the rows of others.

        The accountant of Poisson batches takes an answer under replace_one for a sum whose terms
        have norm at most Delta / 2: the present record's term against the other's, both around the
        answer of an absent one. The bound under zero_out is that of one term, :math:`\Delta_0`. If
        Delta were below :math:`2 \Delta_0`, terms longer than Delta / 2 could occur, and their
        tails are not covered: for terms in [0, 1], Delta = 1, and the pair (absent or 1, absent or
        0) leaks more than the pair (absent or 1/2, absent or -1/2) that would be accounted for.
        (Fixed sizes: any two answers at that distance are covered.)
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


def _check_law(oracle: Oracle, adjacency: privacy.Adjacency) -> None:
    """Raise unless batches and noise are drawn, and used, as they are accounted for."""
    kind = type(oracle)
    changed = [name for name in _FINAL if getattr(kind, name) is not getattr(Oracle, name)]
    if type(oracle.noise) not in PLACEMENTS:
        names = ", ".join(placement.__name__ for placement in PLACEMENTS)
        wrong = (
            "places its noise otherwise than it is accounted for; its noise must stand where one "
            f"of {names} puts it"
        )
    elif changed:
        wrong = (
            f"defines {', '.join(changed)} anew, which decide how an answer is noised and checked; "
            "leave them as Oracle has them"
        )
    elif type(oracle.sampling) not in LAWS:
        names = ", ".join(law.__name__ for law in LAWS)
        wrong = (
            "draws its batches otherwise than they are accounted for; its sampling must be one of "
            f"{names}"
        )
    elif kind.public_part is not Oracle.public_part and not isinstance(
        adjacency.relation, privacy.TargetChange
    ):
        wrong = (
            f"adds its public_part after the noise, and under {adjacency.relation.name} records "
            "are what is protected, features included, so that no part of an answer is public; "
            "return all of it from exact, or use the relation TargetChange"
        )
    else:
        return
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
        _check_gradients(name, assumed, assumed.coefficient_bound, spec)


def _check_gradients(name: str, assumed: Assumptions, coefficient: float, spec: Spec) -> None:
    largest = spec.record_norm * coefficient
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
