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
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from taciturn.errors import InputError
from taciturn.oracles.claims import from_library, name_of_class, own_parts
from taciturn.oracles.placement import PLACEMENTS, AddedNoise, NoisePlacement, OnLattice
from taciturn.oracles.sampling import LAWS, AllRecords, Drawn, PoissonBatches, Sampling
from taciturn.privacy import Adjacency, Norm, ReplaceOne, SensitivityBound, TargetChange, ZeroOut
from taciturn.problems import Loss, Shard
from taciturn.spec import Spec
from taciturn.typing import Array

# the methods that compute an answer, and those that no question may define
_ANSWERS = ("exact", "private_part", "public_part")
_FINAL = ("answer", "unnoised", "check", "claims", "holds_on_machine", "takes_narrow_rows")


class Assumptions(NamedTuple):
    """What a question assumes; None where it assumes nothing.

    Attributes
    ----------
    loss
        The loss of the question: the method must minimise the same one.
    coefficient_bound
        If the question is about the mean of record gradients: the bound that it enforces on the
        norm of a record's coefficient, min(lipschitz, clip). The public facts must have the record
        gradients and the smoothness that follow from it and from the loss.
    record_norm
        The bound on a record's norm that the question uses.
    rho
        If the question is a proximal step: its curvature, which is the method's ADMM parameter.
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
        batches alone: rows may then be kept in single precision, where that holds all digits. It
        is not inherited by a class that defines one of them anew.
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

    @abstractmethod
    def exact(self, shard: Shard, count: Float[Array, ""], query: Any) -> Float[Array, "..."]:
        """Return the answer without noise; on batches it must be a sum over the records.

        Parameters
        ----------
        shard
            One agent's padded records, or those of a batch. Only a door may pass one.
        count
            The agent's public number of records m_i.
        query
            The algorithm's query; public.
        """

    @abstractmethod
    def bound(self, spec: Spec, adjacency: Adjacency, *, norm: Norm) -> SensitivityBound:
        """Return how far the answer can move between neighbouring data sets.

        It must hold at every query and on every batch: queries follow from earlier answers.

        Returns
        -------
        SensitivityBound
            Of shape `(A, 1, 1)`, the same in every round.
        """

    def answer_shape(self, model_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of an answer, given that of the model: here the same."""
        return model_shape

    @property
    def assumptions(self) -> Assumptions:
        """What the algorithm and the public facts must agree with; here nothing."""
        return Assumptions()

    @property
    @abstractmethod
    def exact_on_machine(self) -> bool:
        """Whether `bound` holds for the answers that are computed, rounding included.

        Every question states it. Where it does not hold, a run needs a seed and is a reproduction.
        """

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
        return self.exact_on_machine and (from_library(kinds[0]) or stated <= min(defined))

    @final
    def claims(self) -> tuple[str, ...]:
        """Return the names, `module:Class`, of classes on whose authors' word the bound rests.

        **Guarantee.** Every class, of the question and of all that it holds, that is not the
        library's, but for a loss whose question enforces all that the bound needs of it.
        """
        own = own_parts(self)
        if self.holds_for_any_loss and from_library(type(self)):
            own = tuple(kind for kind in own if not issubclass(kind, Loss))
        return tuple(map(name_of_class, own))

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
        if loss is None or loss.outputs is not None:
            return False
        return all(map(says_so, _ANSWERS))

    @property
    def sampling(self) -> Sampling:
        """Which records take part in an answer; here all."""
        return AllRecords()

    @property
    def noise(self) -> NoisePlacement:
        """Where the noise stands; here it is added to the exact answer."""
        return AddedNoise()

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
        adjacency: Adjacency,
        *,
        norm: Norm,
        loss: Loss | None = None,
        rho: float | None = None,
    ) -> None:
        r"""Raise unless the question suits method, public facts and accountant.

        Parameters
        ----------
        loss
            What the method minimises; None if it does not say.
        rho
            The curvature of the proximal steps that the method asks for; None if it does not say.

        Raises
        ------
        InputError
            If loss or rho is another one than the question's, or the public facts are not those it
            assumes; if something is added after the noise and the relation is not `TargetChange`;
            if its batches are drawn otherwise than by a law of `taciturn.oracles.sampling`,
            no accountant is known for them under these terms, or a replaced record is bounded by
            less than twice a zeroed one on Poisson batches.

        Notes
        -----
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
        _check_assumptions(self, spec, loss, rho)
        _check_law(self)
        _check_public_part(self, adjacency)
        self.sampling.check(spec, adjacency)
        poisson = isinstance(self.sampling, PoissonBatches) and self.sampling.rate < 1
        if poisson and isinstance(adjacency.relation, ReplaceOne):
            _check_terms_of_sum(self, spec, norm)


def _check_law(oracle: Oracle) -> None:
    """Raise unless batches and noise are drawn, and used, as they are accounted for."""
    kind = type(oracle)
    if type(oracle.noise) not in PLACEMENTS:
        names = ", ".join(placement.__name__ for placement in PLACEMENTS)
        raise InputError(
            f"{kind.__name__} places its noise otherwise than it is accounted for; its noise must "
            f"stand where one of {names} puts it"
        )
    changed = [name for name in _FINAL if getattr(kind, name) is not getattr(Oracle, name)]
    if changed:
        raise InputError(
            f"{kind.__name__} defines {', '.join(changed)} anew, which decide how an answer is "
            "noised and checked; leave them as Oracle has them"
        )
    if type(oracle.sampling) not in LAWS:
        names = ", ".join(law.__name__ for law in LAWS)
        raise InputError(
            f"{kind.__name__} draws its batches otherwise than they are accounted for; its "
            f"sampling must be one of {names}"
        )


def _check_public_part(oracle: Oracle, adjacency: Adjacency) -> None:
    kind = type(oracle)
    if kind.public_part is Oracle.public_part or isinstance(adjacency.relation, TargetChange):
        return
    raise InputError(
        f"{kind.__name__} adds its public_part after the noise, and under "
        f"{adjacency.relation.name} records are what is protected, features included, so that no "
        "part of an answer is public; return all of it from exact, or use the relation TargetChange"
    )


def _check_terms_of_sum(oracle: Oracle, spec: Spec, norm: Norm) -> None:
    replaced, zeroed = (
        oracle.bound(spec, Adjacency(relation, "record"), norm=norm).value
        for relation in (ReplaceOne(), ZeroOut())
    )
    if not np.all(replaced >= 2 * zeroed * (1 - 1e-12)):
        raise InputError(
            f"{type(oracle).__name__} bounds a replaced record by less than twice a zeroed one, "
            "for which no accountant of sampled answers is known; return twice the bound of "
            "zero_out"
        )


def _check_assumptions(oracle: Oracle, spec: Spec, loss: Loss | None, rho: float | None) -> None:
    assumed, name = oracle.assumptions, type(oracle).__name__
    if None not in (rho, assumed.rho) and rho != assumed.rho:
        raise InputError(
            f"{name} has rho {assumed.rho:g}, the algorithm {rho:g}; give both the same rho"
        )
    if assumed.loss is not None:
        _check_loss(name, assumed.loss, spec, loss)
    if assumed.record_norm not in (None, spec.record_norm):
        raise InputError(
            f"the public facts promise record norm {spec.record_norm:g}, {name} assumes "
            f"{assumed.record_norm:g}; give both the same bound"
        )
    if assumed.coefficient_bound is not None:
        _check_gradients(name, assumed.coefficient_bound, assumed.loss, spec)


def _check_loss(name: str, assumed: Loss, spec: Spec, loss: Loss | None) -> None:
    if loss is not None and not (type(assumed) is type(loss) and assumed == loss):
        raise InputError(
            f"{name} asks about the loss {assumed!r}, the algorithm minimises {loss!r}; give both "
            "the same loss"
        )
    needed = spec.shape[:1] if assumed.outputs is None else (spec.shape[0], assumed.outputs)
    if spec.shape != needed:
        raise InputError(
            f"the model has shape {spec.shape}; {type(assumed).__name__} needs {needed}: take the "
            "public facts from the same problem"
        )


def _check_gradients(name: str, coefficient: float, loss: Loss | None, spec: Spec) -> None:
    largest = spec.record_norm * coefficient
    if spec.gradient_bound != largest:
        raise InputError(
            f"the public facts assume record gradients of norm {spec.gradient_bound:g}, {name} "
            f"allows {largest:g}; give both the same clip and the same record norm"
        )
    if loss is not None and spec.smoothness != loss.smoothness * spec.record_norm**2:
        raise InputError(
            f"the public facts assume gradients with Lipschitz constant {spec.smoothness:g}, those "
            f"of {loss!r} have {loss.smoothness * spec.record_norm**2:g}; take the public facts "
            "from the same problem"
        )
