"""Whether summation may be credited: decided by tracing the algorithm, never by its word.

Under secure aggregation the observer sees mean_i(message_i) each round. The noises of honest agents
add up in it only if, given what the observer already knows, message_i is an affine function, with
public coefficients that are the same for all agents, of one fresh answer that was asked at public
state. Traced here:

1. the query does not depend on the agent's state;
2. the message does not depend on the agent's state;
3. its derivative in the answer depends on neither the answer nor the state nor the identity.

Dependence is followed conservatively: any tainted input taints every output of an operation. What
cannot be shown is not credited, nor are answers on sampled batches, whose sums no accountant here
covers; the run is then certified at the value for the observer of all
messages, which holds for any function of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from tacit.algorithms import Turn
from tacit.program import Program
from tacit.typing import Array, PyTree


def credits_summation(program: Program) -> bool:
    """Return whether the observer of sums may be credited with all honest agents' noise."""
    if (
        program.kinds.shape[1] != 1
    ):  # several answers reach one message: not analysed, so not credited
        return False
    if any(oracle.sampling_rate < 1 for oracle in program.oracles):
        return False
    algorithm, template = program.algorithm, program.template
    answer = jnp.zeros(program.oracles[0].answer_shape(template.shape), template.dtype)
    private = (algorithm.start(template), _own(program))
    public = (algorithm.first_public(template), answer)

    def query(private: PyTree, public: PyTree) -> PyTree:
        state, turn = private[0], _turn(program, private[1])
        return algorithm.ask(algorithm.receive(state, public[0], turn), public[0], turn)

    def message(private: PyTree, public: PyTree, answer: Array) -> PyTree:
        state, turn = private[0], _turn(program, private[1])
        state = algorithm.receive(state, public[0], turn)
        return algorithm.send(algorithm.tell(state, public[0], turn, answer), public[0], turn)[1]

    def offset(private: PyTree, public: PyTree) -> PyTree:
        return message(private, public, public[1])

    def slope(private: PyTree, public: PyTree) -> PyTree:
        state, own, answer = private
        along = partial(message, (state, own), public)
        return jax.jvp(along, (answer,), (public[1],))[1]

    return not (
        _depends(query, private, public)
        or _depends(offset, private, public)
        or _depends(slope, (*private, answer), public)
    )


def _own(program: Program) -> dict[str, Any]:
    """Return what differs from agent to agent in a turn."""
    one = jnp.ones((), program.template.dtype)
    return {
        "agent": jnp.zeros((), jnp.int32),
        "scale": one,
        "values": dict.fromkeys(program.per_agent, one),
    }


def _turn(program: Program, own: dict[str, Any]) -> Turn:
    """One agent's turn: its own part traced, the shared schedules as constants."""
    zero = jnp.zeros((), jnp.int32)
    shared = {name: values[0] for name, values in program.shared.items()}
    return Turn(zero, zero, zero, zero, own["agent"], own["scale"], shared | own["values"])


def _depends(function: Callable[..., PyTree], private: PyTree, public: PyTree) -> bool:
    """Return whether any output of `function(private, public)` may depend on `private`."""
    jaxpr = jax.make_jaxpr(function)(private, public).jaxpr
    reached = set(jaxpr.invars[: len(jax.tree.leaves(private))])
    for equation in jaxpr.eqns:
        if any(v in reached for v in equation.invars if not isinstance(v, jex.Literal)):
            reached.update(equation.outvars)
    return any(v in reached for v in jaxpr.outvars if not isinstance(v, jex.Literal))
