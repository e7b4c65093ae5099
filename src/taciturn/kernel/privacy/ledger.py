"""The ledger, with one entry for every answer that an agent gives, and legs.

A leg is the ledger of one part of the records, with everything that a verifier needs to compute its
cost; `taciturn.kernel.privacy.compose` computes the total cost of legs.

A method asks every agent the same question in every round, so a hundred thousand agents and two
hundred rounds have a hundred thousand distinct numbers, not twenty million. An array of shape
(A, T, E) is kept as a view of its distinct entries, with stride 0 along axes that repeat them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, Int, Num

from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.privacy.accounting import Event, GaussianAnswer, PerturbedAnswer, sampled
from taciturn.kernel.privacy.mechanisms import Gaussian, Mechanism, NoNoise, lattice_width
from taciturn.kernel.privacy.terms import Adjacency, Observer, Sum
from taciturn.typing import HostArray

Number = TypeVar("Number", bound=np.generic)


def folded(values: np.ndarray[Any, np.dtype[Number]]) -> np.ndarray[Any, np.dtype[Number]]:
    """Return the values with length 1 along every axis along which they are constant."""
    values = thin(values)
    for axis in range(values.ndim):
        if values.shape[axis] > 1:
            first = values.take([0], axis)
            values = first if bool(np.all(values == first)) else values
    return values


def thin(values: np.ndarray[Any, np.dtype[Number]]) -> np.ndarray[Any, np.dtype[Number]]:
    """Return a view without its repetitions: of length 1 along axes of stride 0."""
    return values[tuple(slice(0, 1) if step == 0 else slice(None) for step in values.strides)]


@dataclass(frozen=True, eq=False)
class Inside:
    """The parameters of noise inside an objective, for each agent: see `PerturbedAnswer`."""

    jacobian: Float[HostArray, " A"]
    output_ratio: Float[HostArray, " A"]

    def event(self, multiplier: float, agent: int) -> PerturbedAnswer:
        """Return the event of one agent's answer at this multiplier, for the accountant."""
        return PerturbedAnswer(
            multiplier, float(self.jacobian[agent]), float(self.output_ratio[agent])
        )


NO_QUESTION = -1
# scales are computed in float64 and may be applied in float32
_SCALE_TOL = 1e-6
# two roundings of a double
_ROUNDING = 2.0**-51
_NUMBERS = ("sensitivity", "scale", "rate", "batch", "step")
_AGENTS_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class Ledger:
    """The answers of every agent, on host arrays of shape (A, T, E).

    Raises `InputError` for wrong shapes or types; `PrivacyError` if at a question the sensitivity,
    scale or step is NaN or negative, scale or step is infinite, or the rate is not in (0, 1].

    - `kind`: The number of the question; -1 where there was none: other arrays are ignored there.
    - `sensitivity`: How far one unit can move the answer, in the mechanism's norm; infinity if
      unbounded.
    - `scale`: Scale of the noise, in the same units; 0 for `NoNoise`.
    - `mechanism`: The law of the noise.
    - `rate`: The rate at which each record took part in the answer, in (0, 1].
    - `inside`: The parameters of noise inside an objective; None for added noise.
    - `batch`: The size of a batch of fixed size, drawn without replacement; else 0.
    - `step`: The step of the lattice of answer and noise; 0 for real numbers.
    - `values`: The number of entries of an answer.
    """

    kind: Int[HostArray, "A T E"]
    sensitivity: Float[HostArray, "A T E"]
    scale: Float[HostArray, "A T E"]
    mechanism: Mechanism
    rate: Float[HostArray, "..."] = field(default_factory=lambda: np.ones(()))
    inside: Inside | None = None
    batch: Num[HostArray, "..."] = field(default_factory=lambda: np.zeros(()))
    step: Float[HostArray, "..."] = field(default_factory=lambda: np.zeros(()))
    values: int = 1

    def __post_init__(self) -> None:
        kind = np.asarray(self.kind)
        if kind.ndim != 3 or not np.issubdtype(kind.dtype, np.integer):
            raise InputError(
                f"kind is {kind.dtype} of shape {kind.shape}; it must be whole numbers of shape "
                "(agents, rounds, questions)"
            )
        object.__setattr__(self, "kind", _read_only(kind))
        for name in _NUMBERS:
            value = np.asarray(getattr(self, name), dtype=np.float64)
            value = np.broadcast_to(value, kind.shape) if value.ndim == 0 else value
            if value.shape != kind.shape:
                raise InputError(f"{name} has shape {value.shape}; it must be {kind.shape}")
            object.__setattr__(self, name, _read_only(value))
        self._check_entries()

    def __eq__(self, other: object) -> bool:
        """Return whether everything that determines a certificate is equal."""
        if not isinstance(other, Ledger) or self is other:
            return self is other
        one, its = ([b.kind, *(getattr(b, name) for name in _NUMBERS)] for b in (self, other))
        if self.inside is not None and other.inside is not None:
            one += [self.inside.jacobian, self.inside.output_ratio]
            its += [other.inside.jacobian, other.inside.output_ratio]
        words = [
            (b.kind.shape, b.values, type(b), type(b.mechanism), b.inside is None)
            for b in (self, other)
        ]
        return words[0] == words[1] and all(
            np.array_equal(folded(part), folded(own)) for part, own in zip(one, its, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def _check_entries(self) -> None:
        moves, scale, rate, sizes, steps = self._thin
        asked = self._asked
        if bool(np.any(self.kind < NO_QUESTION)):
            raise InputError("a kind is below -1; use -1 for no question, 0 and above for oracles")
        faults = (
            (moves >= 0, "a sensitivity is NaN or negative; it must be 0 or more"),
            (scale >= 0, "a scale is NaN or negative; it must be 0 or more"),
            (scale < np.inf, "a scale is infinite; give a finite one"),
            ((steps >= 0) & (steps < np.inf), "the step of a lattice is not a number; plan again"),
            ((rate > 0) & (rate <= 1), "a sampling rate is not in (0, 1]; use 1 for no sampling"),
            (sizes == np.floor(sizes), "a batch size is no whole number; use 0 where none is"),
            (sizes >= 0, "a batch size is negative; use 0 where none is"),
        )
        for holds, fault in faults:
            if bool(np.any(asked & ~holds)):
                raise PrivacyError(fault)
        quiet = isinstance(self.mechanism, NoNoise)
        lawful = quiet or isinstance(self.mechanism, Gaussian)
        if self.inside is not None and (self.sampled or not lawful):
            raise PrivacyError(
                "noise inside an objective is accounted for if it is Gaussian and no record is "
                "sampled; use such noise, or add it to the answer"
            )
        if quiet and bool(np.any(asked & (scale > 0))):
            raise PrivacyError("a scale is above 0 but the mechanism is NoNoise; set it to 0")

    @property
    def asked(self) -> HostArray:
        """Where there was a question, `(A, T, E)`."""
        return np.broadcast_to(self._asked, self.kind.shape)

    @property
    def _thin(self) -> tuple[HostArray, ...]:
        """The arrays of `_NUMBERS`, with length 1 along axes on which they are constant."""
        return tuple(thin(getattr(self, name)) for name in _NUMBERS)

    @property
    def _asked(self) -> HostArray:
        """Where there was a question, with length 1 along axes on which it is constant."""
        return np.asarray(thin(self.kind) > NO_QUESTION)

    @property
    def on_lattice(self) -> bool:
        """Whether answers and noise were on a lattice."""
        return bool(np.any(self._asked & (thin(self.step) > 0)))

    @property
    def moves(self) -> Float[HostArray, "A T E"]:
        """How far one unit moves the answer on its lattice, at most.

        The sensitivity, plus 2 h sqrt(d) (2 h d in the 1-norm) for rounding to the lattice, and
        twice that on Poisson batches (`privacy.mechanisms`); 0 where the sensitivity is 0.
        """
        sensitivity, _, _, _, steps = self._thin
        width = lattice_width(self.values, self.mechanism.norm)
        rounding = np.where(self._poisson, 4.0, 2.0) * steps * width
        moves = np.where(sensitivity > 0, sensitivity + rounding, 0.0)
        return np.broadcast_to(moves, self.kind.shape)

    def finest(self) -> float:
        """Return the least scale in steps of the lattice; infinity without a lattice."""
        asked, scale, step = np.broadcast_arrays(self._asked, thin(self.scale), thin(self.step))
        some = asked & (step > 0)
        return float(np.min(scale[some] / step[some], initial=np.inf))

    def most_values(self) -> int:
        """Return the largest number of entries on a lattice that an agent answers in all."""
        answers = np.sum(self.asked & (self.step > 0), axis=(1, 2))
        return self.values * int(np.max(answers, initial=0))

    @property
    def sampled(self) -> bool:
        """Whether any answer is on a sampled batch."""
        return bool(np.any(self._asked & (thin(self.rate) < 1)))

    @property
    def poisson(self) -> bool:
        """Whether any answer is on a Poisson batch."""
        return bool(np.any(self._asked & self._poisson))

    @property
    def _poisson(self) -> HostArray:
        _, _, rates, sizes, _ = self._thin
        return np.asarray((rates < 1) & (sizes == 0))

    @property
    def has_mu(self) -> bool:
        """Whether totals are exactly Gaussian: such noise, on full batches, added to the answer."""
        plain = not self.sampled and self.inside is None
        return isinstance(self.mechanism, NoNoise) or (
            isinstance(self.mechanism, Gaussian) and plain
        )

    def ratios(self) -> Float[HostArray, "A T E"]:
        """Return moves/scale: 0 without a question or sensitivity, infinite without noise."""
        return self._over(self.scale)

    def _over(self, deviation: HostArray) -> HostArray:
        """Return moves/deviation, 0 without a question or sensitivity."""
        moves, deviation = thin(self.moves), thin(deviation)
        matters = self._asked & (moves > 0) & np.ones(deviation.shape, np.bool_)
        with np.errstate(divide="ignore", over="ignore"):
            # an unbounded sensitivity stays infinite under any finite noise
            ratios = np.divide(moves, deviation, out=np.zeros(matters.shape), where=matters)
        return np.broadcast_to(ratios, self.kind.shape)

    def mu_per_agent(self, observer: Observer) -> Float[HostArray, " A"]:
        """Return every agent's total mu for an observer.

        Under `Messages`, mu_i = sqrt(sum_te (Delta_ite/sigma_ite)^2). Under `Sum` with k colluders,
        mu_i = sqrt(sum_te Delta_ite^2 / S_ite), S_ite = sigma_ite^2 + the variances of the other
        agents at that slot, without the k largest of those. Agents that are not asked at a slot add
        no noise there. Raises `PrivacyError` unless `has_mu`; use `events_by_agent` then.

        **Guarantee.** The log-likelihood ratio of all answers, at the worst pair, is a sum of
        independent normal variables, even if each question depends on earlier answers. So this is
        exact and not only a bound (Dong, Roth and Su 2022, corollary 3.3). For the sum, an observer
        who subtracts the noise of k colluders faces independent normal noise of the variance of the
        honest agents; which agents collude is unknown, so the k noisiest others are taken. The sum
        must weight every agent's answer equally, and every question must be a function of what the
        observer knows already.
        """
        if not self.has_mu:
            raise PrivacyError("these answers have no mu; account for their events instead")
        if isinstance(observer, Sum):
            self._check_one_lattice()
            scale = thin(self.scale)
            variance = np.where(self._asked, scale**2, 0.0)
            # of every agent, also where all add the same noise
            each = np.broadcast_to(variance, (len(self.kind), *variance.shape[1:]))
            # where a sum of squares underflowed, the agent's noise still counts
            deviation = np.maximum(np.sqrt(_honest_variance(each, observer.colluders)), scale)
            return _root_of_squares(self._over(deviation))
        return np.asarray(_root_of_squares(self.ratios()))

    def mu_across(self, observer: Observer, agents: int) -> float:
        r"""Return the mu of a unit with a part in the answers of up to `agents` agents.

        Under `Messages`, :math:`\sqrt{\sum_i \mu_i^2}` over the agents with the largest mu_i. Under
        `Sum`, with the largest Delta of a slot and S^2 the variance of all agents at it without the
        k largest, :math:`\sqrt{\sum_{te} (\sum_i \Delta_{ite})^2 / S_{te}^2}`.

        **Guarantee.** Agents draw noise independently, so Gaussian answers of several compose like
        those of one. In a sum their changes add up, by the triangle inequality. Any k agents may
        collude, those with the unit included, but not all agents: then no noise would remain.
        """
        most, each = min(agents, self.kind.shape[0]), self.mu_per_agent(observer)
        if not isinstance(observer, Sum):
            return float(np.linalg.norm(np.sort(each)[-most:]))
        self._check_one_lattice()
        variance = np.sort(np.where(self.asked, self.scale**2, 0.0), axis=0)
        honest = variance[: max(1, len(variance) - observer.colluders)]
        moves = np.sort(np.where(self.asked, self.moves, 0.0), axis=0)[-most:].sum(axis=0)
        with np.errstate(divide="ignore", over="ignore"):
            deviation = np.sqrt(np.sum(honest, axis=0))
            ratios = np.divide(moves, deviation, out=np.zeros(moves.shape), where=moves > 0)
            return float(np.sqrt(np.sum(np.square(ratios))))

    def _check_one_lattice(self) -> None:
        """Raise `PrivacyError` unless the answers of a sum are on one lattice.

        Digits of a sum below the coarser of two steps come only from the agent with the finer step.
        """
        step, asked = np.broadcast_arrays(thin(self.step), self._asked)
        most = np.max(np.where(asked, step, 0.0), axis=0)
        if not np.array_equal(most, np.min(np.where(asked, step, most), axis=0)):
            raise PrivacyError(
                "answers that are added up are on lattices of different steps, so that their sum "
                "reveals digits of the agent with the finest; plan again"
            )

    def events_by_agent(self) -> tuple[tuple[tuple[Event, int], ...], ...]:
        """Return every agent's answers for the accountant, equal ones merged, as (event, count).

        Answers of sensitivity 0 are left out. Agents with equal answers share one tuple.
        """
        answers, inside = (self.ratios(), self.rate, self.batch), self.inside
        known: dict[Any, tuple[tuple[Event, int], ...]] = {}
        keys = []
        for agent in range(len(self.kind)):
            given = np.stack([part[agent].ravel() for part in answers])
            # the parameters of noise inside an objective differ between agents
            keys.append(given.tobytes() if inside is None else agent)
            if keys[-1] not in known:
                known[keys[-1]] = tuple(self._counted(given, agent).items())
        return tuple(known[key] for key in keys)

    def _counted(self, answers: HostArray, agent: int) -> Counter[Event]:
        """Return how often an agent gave each answer, from its ratios, rates and batch sizes."""
        total: Counter[Event] = Counter()
        values, counts = np.unique(answers[:, answers[0] > 0], axis=1, return_counts=True)
        for (value, rate, size), count in zip(values.T.tolist(), counts.tolist(), strict=True):
            # 1/infinity is 0, an answer without noise; a tiny ratio gives a finite multiplier
            event = self.mechanism.event(min(1 / value, sys.float_info.max))
            if self.inside is not None and isinstance(event, GaussianAnswer):
                event = self.inside.event(event.multiplier, agent)
            total[sampled(event, rate, int(size))] += count
        return total

    def same_as(self, observed: Ledger) -> None:
        """Raise `PrivacyError` unless an observed ledger agrees with this planned one.

        Mechanism, shape, kinds, sizes of batches and steps of the lattice must be equal; rates
        agree to a relative 1e-6, and so do scales, which may not be smaller. The error names the
        first agent, round and question (from 0) where the two differ.
        """
        law, other = (
            f"{type(b.mechanism).__name__} noise of shape {b.kind.shape}" for b in (self, observed)
        )
        if law != other:
            raise PrivacyError(f"planned {law} but observed {other}; nothing may be released")
        kind, kind_2 = thin(self.kind), thin(observed.kind)
        (_, scale, rate, *exact), (_, scale_2, rate_2, *exact_2) = self._thin, observed._thin
        asked = (kind > NO_QUESTION) & (kind_2 > NO_QUESTION)
        more = np.where(asked, scale_2, 0.0) - np.where(asked, scale, 0.0)
        close = (-_ROUNDING * scale <= more) & (more <= _SCALE_TOL * scale)
        close &= np.abs(rate_2 - rate) <= _SCALE_TOL * rate
        for one, its in zip(exact, exact_2, strict=True):
            close = close & (one == its)
        wrong = (kind != kind_2) | (asked & ~close)
        if bool(np.any(wrong)):
            whole = np.broadcast_to(wrong, self.kind.shape)
            raise PrivacyError(_difference(self, observed, np.argwhere(whole)[0]))


def _difference(planned: Ledger, observed: Ledger, where: HostArray) -> str:
    place = agent, turn, question = tuple(int(index) for index in where)

    def answer(book: Ledger) -> str:
        kind, scale, step, rate, batch = (
            part[place] for part in (book.kind, book.scale, book.step, book.rate, book.batch)
        )
        return (
            "no question"
            if kind == NO_QUESTION
            else (
                f"kind {kind} at scale {scale:.9g} on a lattice of step {step:.9g}, sampling rate "
                f"{rate:.9g} in batches of {batch:g}"
            )
        )

    return (
        f"agent {agent}, round {turn}, question {question}: planned {answer(planned)} but observed "
        f"{answer(observed)}; nothing may be released"
    )


def _honest_variance(variance: HostArray, colluders: int) -> HostArray:
    """Return an agent's variance plus the others' without the k largest of those, (A, T, E).

    With v the (k+1)-th largest variance of a slot, R the sum of all smaller ones and s^2 the
    agent's, this is R + max(s^2, v): for an agent among the k+1 largest, R and s^2; for any other,
    v is the largest honest one and s^2 is part of R. No subtraction can cancel.
    """
    agents = variance.shape[0]
    if colluders >= agents - 1:
        return variance
    rank = agents - 1 - colluders
    split = np.partition(variance, rank, axis=0)
    return np.asarray(np.sum(split[:rank], axis=0) + np.maximum(variance, split[rank]))


def _root_of_squares(ratios: HostArray) -> HostArray:
    # in blocks of agents, since axes of stride 0 are expanded here
    several = range(0, max(len(ratios), 1), _AGENTS_AT_ONCE)
    parts = (np.ascontiguousarray(ratios[start : start + _AGENTS_AT_ONCE]) for start in several)
    with np.errstate(over="ignore"):
        sums = [np.sum(np.square(part), axis=(1, 2)) for part in parts]
        return np.asarray(np.sqrt(np.concatenate(sums)))


def _read_only(values: HostArray) -> HostArray:
    """Return a read-only view of a folded copy."""
    return np.broadcast_to(folded(values).copy(), values.shape)


@dataclass(frozen=True)
class Leg:
    """The answers of some agents about one part of their records.

    Raises `PrivacyError` unless ledger, agents and records have equally many agents.

    - `part`: The name of the part: "training" or "held out".
    - `agents`: The agents by their numbers in the run, in the order of the ledger; None for all.
    - `records`: How many records each of them has in this part; of persons their places.
    - `ledger`: Their answers.
    - `questions`: Facts of each question (`taciturn.kernel.questions.Oracle.stated`), by number.
    - `observer`: The observer of the accounting: of all messages, or of a sum.
    - `adjacency`: The neighbours for which the sensitivities of the ledger hold.
    - `dealt`: Whether the records were dealt to the agents by a secret draw.
    - `trust`: What hides the messages from the observer; None for `observer.trust`.
    - `exact`: Whether the bounds hold for the answers that a machine computes.
    """

    part: str
    agents: tuple[int, ...] | None
    records: tuple[int, ...]
    ledger: Ledger
    questions: tuple[Mapping[str, Any], ...]
    observer: Observer
    adjacency: Adjacency
    dealt: bool = False
    trust: str | None = None
    exact: bool = True

    def __post_init__(self) -> None:
        named = self.records if self.agents is None else self.agents
        if not len(self.ledger.kind) == len(self.records) == len(named):
            raise PrivacyError(
                f"a leg has answers of {len(self.ledger.kind)} agents, the records of "
                f"{len(self.records)} and {len(named)} names; give those of the same agents"
            )


@dataclass(frozen=True)
class ChoiceLeg:
    """One choice of every agent among candidates, about a part of its records.

    `rate`: of the exponential mechanism on costs that are sums of terms in [0, 1]
    (`taciturn.kernel.noise.exponential_choice`).
    """

    part: str
    rate: float
