"""What jit sees of a plan: algorithm parameters, schedules and scales as arrays of one dtype."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from tacit.algorithms import Algorithm, Turn
from tacit.engine.network import NetworkKind
from tacit.errors import InputError
from tacit.oracles import Oracle
from tacit.privacy import Mechanism
from tacit.typing import Array, PyTree


class Program(eqx.Module):
    """A plan as one pytree. Stack several (`stack`) and map over the leading axis to sweep.

    Attributes
    ----------
    questions
        `(T, E)`: which oracle is asked; -1 for none.
    shared, per_agent
        Schedules: `(T,)` each, and `(T, A)` each.
    scales
        `(T, E, S)`: absolute noise scale of every answer of the S agents that may be asked in a
        round: all on a star and in gossip, the holder of the token on a relay.
    template
        A zero model: its shape and dtype are the run's.
    network
        How the agents are connected.
    """

    algorithm: Algorithm
    oracles: tuple[Oracle, ...]
    mechanism: Mechanism
    questions: Int[Array, "T E"]
    shared: dict[str, Float[Array, "T"]]
    per_agent: dict[str, Float[Array, "T A"]]
    scales: Float[Array, "T E S"]
    template: Float[Array, "*shape"]
    network: NetworkKind

    @property
    def rounds(self) -> int:
        """Number of rounds, T."""
        return int(self.questions.shape[0])

    @property
    def agents(self) -> int:
        """Number of agents, A."""
        return self.network.agents


def cast(tree: PyTree, dtype: Any) -> PyTree:
    """Return `tree` with every number that can be fractional as an array of `dtype`.

    One stray float64 promotes the carry of a whole run; so does a Python float once programs are
    stacked.
    """

    def leaf(x: Any) -> Any:
        fractional = isinstance(x, float) or (
            isinstance(x, (np.ndarray, np.generic, jax.Array))
            and jnp.issubdtype(x.dtype, jnp.floating)
        )
        return jnp.asarray(x, dtype) if fractional else x

    return jax.tree.map(leaf, tree)


def stack(programs: list[Program]) -> Program:
    """Return one program whose arrays have a leading axis over `programs`, for `jax.vmap`.

    Raises
    ------
    InputError
        If the programs differ in more than numbers (another algorithm, mechanism, shape or
        horizon).
    """
    structures = {jax.tree.structure(program) for program in programs}
    if len(structures) != 1:
        raise InputError(
            "these plans differ in structure; sweep over numbers, one algorithm at a time"
        )
    stacked: Program = jax.tree.map(lambda *leaves: jnp.stack(leaves), *programs)
    return stacked


def agent_turns(program: Program) -> Turn:
    """Return the turns of the S agents that may be asked in each round, leaves `(T, E, S)`."""
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
        scale=program.scales,
        values={name: fill(v[:, None, None]) for name, v in program.shared.items()}
        | {name: fill(v[:, None, :]) for name, v in per_agent.items()},
    )


def server_turns(program: Program) -> Turn:
    """Return the aggregator's turns, leaves `(T,)`: shared schedules, no agent, no scale."""
    index = jnp.arange(program.rounds, dtype=jnp.int32)
    nobody = jnp.full_like(index, -1)
    nothing = jnp.zeros(program.rounds, program.template.dtype)
    return Turn(index, jnp.zeros_like(index), index, nobody, nobody, nothing, program.shared)
