"""The compiled form of a plan, drafted at a given noise: arrays of one dtype, and the network."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from taciturn.algorithms import Algorithm, Noise, Turn
from taciturn.calibration import scales_for, step_exponents
from taciturn.engine.network import Gossip, NetworkKind, OnTree, Relay, Star, Traffic
from taciturn.engine.protocol import Summed
from taciturn.errors import InputError
from taciturn.kernel import privacy
from taciturn.kernel.door import Agenda, at, planned_ledger
from taciturn.kernel.privacy import MOST_EPSILON_OF_POISSON, folded, lattice_width
from taciturn.kernel.questions import Oracle, PoissonBatches
from taciturn.kernel.records import Spec, jax_array
from taciturn.network import Mixing, Network, Tree, Walk
from taciturn.typing import Array, HostArray, Precision, PyTree


class Program(eqx.Module):
    """A plan as one pytree. For a sweep, stack several (`stack`) and map over the leading axis.

    - `shared`, `per_agent`: Schedules, `(T,)` and `(T, A)` each.
    - `scales`: `(T, E, S)`: Noise scale of every answer of the S agents that may be queried in a
      round: all on a star and in gossip, the holder of the token on a relay.
    - `exponents`: `(T, E, S)`: The lattice of every answer has step 2^exponent.
    - `summed`: Whether agents send integer steps, of which only the sum is revealed
      (`taciturn.engine.protocol.Summed`).
    """

    algorithm: Algorithm
    oracles: tuple[Oracle, ...]
    mechanism: privacy.Mechanism
    questions: Int[Array, "T E"]  # `(T, E)`: which oracle is asked; -1 for none
    shared: dict[str, Float[Array, "T"]]
    per_agent: dict[str, Float[Array, "T A"]]
    scales: Float[Array, "T E S"]
    exponents: Int[Array, "T E S"]
    template: Float[Array, "*shape"]  # a zero model: its shape and dtype are the run's
    network: NetworkKind  # how the agents are connected
    summed: bool = eqx.field(static=True, default=False)

    @property
    def executed(self) -> Algorithm:
        """The method that runs: the planned one, or its form that sends integer steps."""
        if not self.summed:
            return self.algorithm
        method: Any = self.algorithm  # of a star: only there is summation credited
        return Summed(method, self.template, self.oracles[0].answer_shape(self.template.shape))

    @property
    def agenda(self) -> Agenda:
        """All questions of the run with their turns."""
        return Agenda(_agent_turns(self), self.oracles, self.mechanism, self.template.shape)

    @property
    def rounds(self) -> int:
        """Number of rounds, T."""
        return int(self.questions.shape[0])

    @property
    def agents(self) -> int:
        """Number of agents, A."""
        return self.network.agents


def cast(tree: PyTree, dtype: Any) -> PyTree:
    """Return `tree` with every floating-point number as an array of `dtype`.

    A single float64 would promote the carry of a whole run, as would a Python float when programs
    are stacked.
    """

    def leaf(x: Any) -> Any:
        fractional = isinstance(x, float) or (
            isinstance(x, (np.ndarray, np.generic, jax.Array))
            and jnp.issubdtype(x.dtype, jnp.floating)
        )
        return jax_array(x, dtype) if fractional else x

    return jax.tree.map(leaf, tree)


def stack(programs: Sequence[Program]) -> Program:
    """Return one program whose arrays have a leading axis over `programs`, for `jax.vmap`.

    Raises `InputError` if the programs differ in more than numbers (algorithm, mechanism, shape or
    horizon).
    """
    if len({program.summed for program in programs}) > 1:
        # sums of messages differ from sums of integer steps by rounding only, and a sweep is seeded
        programs = [dataclasses.replace(program, summed=False) for program in programs]
    structures = {jax.tree.structure(program) for program in programs}
    if len(structures) != 1:
        raise InputError(
            "these plans differ in structure; sweep over numbers, one algorithm at a time"
        )
    stacked: Program = jax.tree.map(lambda *leaves: jnp.stack(leaves), *programs)
    return stacked


def agent_turns(program: Program) -> Turn:
    """Return the turns of the S agents that may be queried in each round, leaves `(T, E, S)`."""
    network, (rounds, local) = program.network, program.questions.shape
    shape = program.scales.shape
    index = jnp.arange(rounds, dtype=jnp.int32)[:, None, None]
    agent, participation = network.participants(rounds)
    per_agent = {name: network.schedule_of_participants(v) for name, v in program.per_agent.items()}

    def fill(x: Array) -> Array:
        return jnp.broadcast_to(x, shape)

    return Turn(
        round=fill(index),
        local=fill(jnp.arange(local, dtype=jnp.int32)[None, :, None]),
        participation=fill(participation[:, None, None]),
        question=fill(network.questions(program.questions)[:, :, None]),
        agent=fill(agent[:, None, :]),
        # answers that are summed keep all their digits
        scale=program.scales.astype(jnp.float64) if program.summed else program.scales,
        exponent=program.exponents,
        values={name: fill(v[:, None, None]) for name, v in program.shared.items()}
        | {name: fill(v[:, None, :]) for name, v in per_agent.items()},
    )


# compiled as one program, not one per operation
_agent_turns = jax.jit(agent_turns)


def server_turns(program: Program) -> Turn:
    """Return the aggregator's turns, leaves `(T,)`: shared schedules, no agent, no scale.

    If it sums integer steps, they are those of the first agent, whose message it computes.
    """
    if program.summed:
        first: Turn = jax.tree.map(lambda leaf: leaf[:, 0, 0], agent_turns(program))
        return first
    index = jnp.arange(program.rounds, dtype=jnp.int32)
    nobody = jnp.full_like(index, -1)
    nothing = jnp.zeros(program.rounds, program.template.dtype)
    zero = jnp.zeros_like(index)
    return Turn(index, zero, index, nobody, nobody, nothing, zero, program.shared)


@dataclass(frozen=True)
class Design:
    """The inputs of a draft.

    `relative`: each agent's multiplier relative to that of the draft, `(A,)`, or one for all.
    """

    spec: Spec
    adjacency: privacy.Adjacency
    algorithm: Algorithm
    oracles: tuple[Oracle, ...]
    bounds: tuple[privacy.SensitivityBound, ...]
    mechanism: privacy.Mechanism
    inside: privacy.Inside | None
    network: NetworkKind
    relative: HostArray = field(default_factory=lambda: np.ones(1))


@dataclass(frozen=True)
class Draft:
    """A plan at one multiplier and for one observer."""

    schedules: dict[str, HostArray]
    ledger: privacy.Ledger
    program: Program


def drafted(
    design: Design,
    questions: HostArray,
    noise: Noise,
    observer: privacy.Observer,
    precision: Precision,
) -> Draft:
    """Return schedules, ledger and program at this noise."""
    oracles, bounds = design.oracles, design.bounds
    relative = [o.noise.relative_multiplier * design.relative[:, None, None] for o in oracles]
    weighted = [bound.value * part for bound, part in zip(bounds, relative, strict=True)]
    largest = noise.multiplier * max(float(np.max(values)) for values in weighted)
    if float(np.finfo(precision).max) < largest < math.inf:
        raise InputError(
            f"noise of scale {largest:.3g} is beyond the range of {precision}; give the records a "
            "smaller unit, a smaller clip, or a larger budget"
        )
    schedules = design.network.all_rounds(
        len(questions), lambda rounds: _schedules(design, rounds, noise)
    )
    asked = design.network.asked(questions)
    different = folded(asked)  # length 1 along axes of equal rounds or questions, to save memory
    numbers = np.broadcast_to(different, (len(asked), *different.shape[1:]))
    scale = scales_for(_by_question(weighted, numbers), noise.multiplier, observer)
    values = math.prod(oracles[0].answer_shape(design.spec.shape))
    multipliers = noise.multiplier * _by_question(relative, numbers)
    width = lattice_width(values, design.mechanism.norm)
    exponents = step_exponents(scale, multipliers, width)
    narrow = scale.astype(precision)  # rounded up: noise must not be below the planned scale
    rounded = np.where(narrow < scale, np.nextafter(narrow, np.inf, dtype=narrow.dtype), narrow)
    on_lattice = (scale > 0) & (design.inside is None)  # noise inside an objective has no lattice
    whole = functools.partial(np.broadcast_to, shape=asked.shape)
    ledger = planned_ledger(
        oracles,
        design.mechanism,
        design.spec,
        design.adjacency,
        kind=asked,
        scale=whole(scale),
        step=whole(np.where(on_lattice, np.ldexp(1.0, exponents), 0.0)),
    )
    program = Program(
        algorithm=design.algorithm,
        oracles=oracles,
        mechanism=design.mechanism,
        questions=jax_array(questions, np.int32),
        shared={name: jax_array(v) for name, v in schedules.items() if v.ndim == 1},
        per_agent={name: jax_array(v.T) for name, v in schedules.items() if v.ndim == 2},
        scales=jax_array(design.network.of_participants(whole(rounded))),
        exponents=jax_array(design.network.of_participants(whole(exponents))),
        template=jax_array(np.zeros(design.spec.shape)),
        network=design.network,
    )
    return Draft(schedules, ledger, cast(program, jnp.dtype(precision)))


def _by_question(of_oracles: list[HostArray], questions: HostArray) -> HostArray:
    """Return for each slot `(A, T, E)` the entry of its question's oracle; 0 for no question."""
    value = np.zeros(questions.shape)
    for number, entries in enumerate(of_oracles):
        value = np.where(questions == number, entries, value)
    return value


LAWS = (privacy.Gaussian, privacy.Laplace, privacy.NoNoise)


def check_noise(mechanism: privacy.Mechanism, oracles: tuple[Oracle, ...], epsilon: float) -> None:
    """Raise `InputError` unless noise and batches are drawn as they are accounted for.

    `taciturn.kernel.privacy.compose` certifies no Poisson batch beyond epsilon 50; this refuses it
    before anything is computed.
    """
    if type(mechanism) not in LAWS:
        names = ", ".join(law.__name__ for law in LAWS)
        raise InputError(
            f"no accountant knows the noise {type(mechanism).__name__}; choose one of {names}"
        )
    poisson = any(isinstance(o.sampling, PoissonBatches) and o.sampling.rate < 1 for o in oracles)
    if poisson and MOST_EPSILON_OF_POISSON < epsilon < math.inf:
        raise InputError(
            f"Poisson batches are accounted for up to epsilon {MOST_EPSILON_OF_POISSON:g}, not at "
            f"{epsilon:g}; ask for less, or answer on all records or on batches of a fixed size"
        )


KINDS: Mapping[type, type[NetworkKind]] = MappingProxyType(
    {type(None): Star, Tree: OnTree, Mixing: Gossip, Walk: Relay}
)


def connect(network: Network, algorithm: Algorithm, agents: int, rounds: int) -> NetworkKind:
    """Return the network as arrays, checked against the algorithm, the agents and the rounds.

    Raises `InputError` if it is not a network, has another number of agents, is a walk whose hops
    are not the rounds or that omits an agent, or if the algorithm needs another kind.
    """
    kind = KINDS.get(type(network))
    if kind is None:
        raise InputError(
            f"network is {network!r}; pass None (an aggregator), a taciturn.network.Tree, a "
            "taciturn.network.Mixing or a taciturn.network.Walk"
        )
    if not isinstance(algorithm, kind.algorithms):
        needed = [other.data for other in KINDS.values() if isinstance(algorithm, other.algorithms)]
        given = "none" if network is None else kind.data
        raise InputError(
            f"{type(algorithm).__name__} needs {' or '.join(needed)}, the plan was given {given}; "
            "change one of them"
        )
    return kind.connect(network, agents, rounds)


class Shapes(NamedTuple):
    """Shapes and types of an agent's state, message and inbox."""

    state: PyTree
    message: PyTree
    inbox: PyTree


def shapes_of(program: Program) -> Shapes:
    """Return the shapes of an agent's state, message and inbox in a round."""
    algorithm: Any = program.executed
    network: Any = program.network
    template = program.template

    def once() -> Shapes:
        turn = at(jax.tree.map(lambda leaf: leaf[0, :, 0], agent_turns(program)), 0)
        inbox = network.inbox(network.first_inboxes(algorithm, template), 0)
        state = algorithm.receive(algorithm.start(template), inbox, turn)
        shape = program.oracles[0].answer_shape(template.shape)
        state = algorithm.tell(state, inbox, turn, jnp.zeros(shape, turn.scale.dtype))
        state, message = algorithm.send(state, inbox, turn)
        return Shapes(state, message, inbox)

    shapes: Shapes = jax.eval_shape(once)
    return shapes


def traffic_of(program: Program) -> Traffic:
    """Return the counts of messages that agents and aggregator send, and of their numbers."""
    _, message, inbox = (
        sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree)) for tree in shapes_of(program)
    )
    return program.network.traffic(message, inbox, program.rounds)


def _schedules(design: Design, rounds: int, noise: Noise) -> dict[str, HostArray]:
    """Return the schedules of a method as arrays; `InputError` for one of another length."""
    given = design.algorithm.schedule(design.spec, rounds, noise)
    values = {name: np.asarray(value) for name, value in given.items()}
    for name, value in values.items():
        if value.shape not in {(rounds,), (design.spec.agents, rounds)}:
            raise InputError(
                f"the schedule {name!r} has shape {value.shape}; give ({rounds},), a value for "
                f"each round, or ({design.spec.agents}, {rounds}), one for each agent too"
            )
    return values
