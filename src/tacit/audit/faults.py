"""Planted faults: broken doors, oracles and algorithms that an audit must catch.

| fault | what is broken | who must see it |
|---|---|---|
| halved-noise | noise of half the recorded scale | likelihood ratio, residuals |
| no-clipping | record gradients, or targets, are not clipped | likelihood ratio, replay |
| reused-noise | one draw of noise for every round | residuals (the likelihood ratio is blind) |
| clear-dual | un-noised dual (or gradient) on the wire | message replay |
| clear-restart | VRADMM as published: restarts from the un-noised gradient | message replay |
| short-key | the key of a run has 8 bits of entropy | tests of what is drawn without a seed |
| repeated-noise | the first block of rounds' noise again in later ones | the same |
| part-noise | noise on the first 64 numbers of an answer only | the same |
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float
from typing_extensions import override

from tacit.algorithms import VRADMM, Algorithm, DualMessage, Noise, StarAlgorithm, Turn
from tacit.engine.door import Door, Live, Private, Record, exact_answer, noise_key
from tacit.errors import InputError
from tacit.oracles import Gradient, Oracle, ProjectedStep, ProximalStep, Statistics
from tacit.spec import Spec
from tacit.typing import Array, HostArray, PyTree

Fault = Literal[
    "halved-noise",
    "no-clipping",
    "reused-noise",
    "clear-dual",
    "clear-restart",
    "short-key",
    "repeated-noise",
    "part-noise",
]


class Subject(NamedTuple):
    """What is really run: it equals the plan unless a fault was planted."""

    algorithm: Algorithm
    oracles: tuple[Oracle, ...]
    door: Door


def fault_named(name: str) -> Fault:
    """Return `name` if it is a planted fault, else raise `InputError` with the list."""
    for fault in get_args(Fault):
        if fault == name:
            known: Fault = fault
            return known
    raise InputError(f"unknown fault {name!r}; choose from {', '.join(get_args(Fault))}")


# beyond every coefficient of an audit, and still a bound that exact sums can be cut to
_FAR = 1e9


def plant(fault: Fault | None, algorithm: Algorithm, live: Live) -> Subject:
    """Return the subject of an audit, with `fault` planted in it."""
    if fault == "halved-noise":
        return Subject(algorithm, live.oracles, HalvedNoise(live))
    if fault == "reused-noise":
        return Subject(algorithm, live.oracles, ReusedNoise(live))
    if fault == "no-clipping":
        oracles = tuple(_unclipped(oracle) for oracle in live.oracles)
        return Subject(algorithm, oracles, Live(oracles, live.mechanism, live.key))
    if fault == "clear-restart":
        if not isinstance(algorithm, VRADMM):
            raise InputError(f"{type(algorithm).__name__} has no restart; choose another fault")
        return Subject(ClearRestart(algorithm), live.oracles, BothAnswers(live))
    if fault == "clear-dual":
        if not isinstance(algorithm, StarAlgorithm):
            raise InputError("a clear dual is planted in methods with an aggregator only")
        return Subject(ClearState(algorithm), live.oracles, BothAnswers(live))
    return Subject(algorithm, live.oracles, live)


def _unclipped(oracle: Oracle) -> Oracle:
    if isinstance(oracle, Statistics):
        return dataclasses.replace(oracle, target_bound=_FAR)
    if not isinstance(oracle, Gradient | ProjectedStep | ProximalStep):
        raise InputError(f"{type(oracle).__name__} does not clip, so it cannot forget to")
    return dataclasses.replace(oracle, clip=_FAR)


class HalvedNoise(Door):
    """Adds half the noise that it records."""

    live: Live

    @override
    def __call__(self, private: Private, query: PyTree, turn: Turn) -> tuple[Array, Record]:
        answer, record = self.live(private, query, turn._replace(scale=turn.scale / 2))
        return answer, record._replace(scale=turn.scale)


class ReusedNoise(Door):
    """Draws the noise of the first round again in every round."""

    live: Live

    @override
    def __call__(self, private: Private, query: PyTree, turn: Turn) -> tuple[Array, Record]:
        live = self.live
        exact = exact_answer(live.oracles, private, query, turn, live.key)
        assert live.key is not None
        key = noise_key(live.key, turn._replace(participation=turn.participation * 0))
        answer = exact + live.mechanism.sample(key, exact, turn.scale)
        return answer, Record(turn.question, turn.scale, turn.exponent, answer)


class BothAnswers(Door):
    """Hands the algorithm the noised and the exact answer."""

    live: Live

    @override
    def __call__(self, private: Private, query: PyTree, turn: Turn) -> tuple[Any, Record]:
        answer, record = self.live(private, query, turn)
        live = self.live
        return (answer, exact_answer(live.oracles, private, query, turn, live.key)), record


class _Twin(NamedTuple):
    noised: PyTree
    clear: PyTree


class ClearState(StarAlgorithm):
    """Keep a second, un-noised state and let it out: the dual, or the whole message."""

    base: StarAlgorithm = eqx.field()

    @override
    def questions(self, rounds: int) -> HostArray:
        return self.base.questions(rounds)

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        return self.base.schedule(spec, rounds, noise)

    @override
    def start(self, template: Float[Array, "*shape"]) -> _Twin:
        return _Twin(self.base.start(template), self.base.start(template))

    @override
    def receive(self, state: _Twin, inbox: PyTree, turn: Turn) -> _Twin:
        return _Twin(*(self.base.receive(part, inbox, turn) for part in state))

    @override
    def ask(self, state: _Twin, inbox: PyTree, turn: Turn) -> Any:
        return self.base.ask(state.noised, inbox, turn)

    @override
    def tell(self, state: _Twin, inbox: PyTree, turn: Turn, answer: Any) -> _Twin:
        return _Twin(
            *(self.base.tell(part, inbox, turn, a) for part, a in zip(state, answer, strict=True))
        )

    @override
    def send(self, state: _Twin, inbox: PyTree, turn: Turn) -> tuple[_Twin, PyTree]:
        noised, message = self.base.send(state.noised, inbox, turn)
        clear, leaked = self.base.send(state.clear, inbox, turn)
        if isinstance(message, DualMessage):
            leaked = message._replace(dual=leaked.dual)
        return _Twin(noised, clear), leaked

    @override
    def first_public(self, template: Float[Array, "*shape"]) -> PyTree:
        return self.base.first_public(template)

    @override
    def combine(self, public: PyTree, mean_message: PyTree, turn: Turn) -> PyTree:
        return self.base.combine(public, mean_message, turn)

    @override
    def model(self, public: PyTree) -> Float[Array, "*shape"]:
        return self.base.model(public)


class ClearRestart(ClearState):
    """Send the un-noised snapshot gradient, which the published restart is computed from."""

    @override
    def send(self, state: _Twin, inbox: PyTree, turn: Turn) -> tuple[_Twin, PyTree]:
        kept, clear = super().send(state, inbox, turn)
        _, noised = self.base.send(state.noised, inbox, turn)
        return kept, jnp.where(turn.values["moves"] > 0, noised, clear)
