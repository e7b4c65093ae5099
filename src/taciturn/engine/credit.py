"""Whether a draft can run, whether summation may be credited to its answers, and its leg.

Under secure aggregation the observer sees mean_i(message_i) each round. The noises of honest agents
add up in it only if, given the observer's knowledge, message_i is an affine function, with public
coefficients common to all agents, of one fresh answer queried at public state. Traced here
(`taciturn.kernel.door.affine`):

1. the query does not depend on the agent's state, its identity or its schedules;
2. nor does the message, other than through the answer;
3. the message is affine in the answer.

If this cannot be shown, or answers are on sampled batches, for whose sums there is no accountant
here, summation is not credited: the run is certified for the observer of all messages.
"""

from __future__ import annotations

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from taciturn.algorithms import StarAlgorithm, Turn
from taciturn.engine.network import NetworkKind
from taciturn.engine.program import Program, agent_turns
from taciturn.engine.runtimes import compute
from taciturn.errors import InputError, TaciturnError
from taciturn.kernel import door
from taciturn.kernel.privacy import Ledger, Leg, Observer, Terms
from taciturn.kernel.questions import Oracle
from taciturn.kernel.records import Shard, Side, Spec
from taciturn.typing import Array, PyTree


def credits_summation(program: Program) -> bool:
    """Return whether the observer of sums may be credited with the noise of all honest agents."""
    here = program.algorithm.runs_here  # code elsewhere cannot be traced
    if not (here and program.network.aggregates and _adds_noise_once(program)):
        return False
    algorithm, template = cast(StarAlgorithm, program.algorithm), program.template
    answer = jnp.zeros(program.oracles[0].answer_shape(template.shape), template.dtype)
    one, zero = jnp.ones((), template.dtype), jnp.zeros((), jnp.int32)
    # the parts of a turn that differ between agents
    turn = {"agent": zero, "scale": one, "exponent": zero}
    private = (algorithm.start(template), turn | {"values": dict.fromkeys(program.per_agent, one)})
    public = algorithm.first_public(template)

    def query(private: PyTree, public: PyTree) -> PyTree:
        state, turn = private[0], _turn(program, private[1])
        return algorithm.ask(algorithm.receive(state, public, turn), public, turn)

    def message(private: PyTree, public: PyTree, answer: Array) -> PyTree:
        state, turn = private[0], _turn(program, private[1])
        state = algorithm.receive(state, public, turn)
        return algorithm.send(algorithm.tell(state, public, turn, answer), public, turn)[1]

    def released(public: PyTree, mean: PyTree) -> PyTree:
        public = algorithm.combine(public, mean, _turn(program, private[1]))
        return public, algorithm.model(public)

    # a callback to the host could reveal anything, whatever the dependencies say
    sent = jax.eval_shape(message, private, public, answer)
    steps = ((query, (private, public)), (message, (private, public, answer)))
    if not all(door.has_no_effects(*step) for step in (*steps, (released, (public, sent)))):
        return False
    queries = door.marks_out(query, (private, public), (door.TAINTED, door.CLEAN))
    messages = door.marks_out(
        message, (private, public, answer), (door.TAINTED, door.CLEAN, door.AFFINE)
    )
    return set(queries) <= {door.CLEAN} and door.TAINTED not in messages


def _adds_noise_once(program: Program) -> bool:
    """Whether a message can hold only one answer, on all records, with noise added to it."""
    if program.questions.shape[1] != 1:  # several answers enter one message: not analysed here
        return False
    # adding a large public part to a noised answer would round its noise away before the sum
    return all(
        oracle.sampling.rate == 1
        and oracle.noise.adds
        and type(oracle).public_part is Oracle.public_part
        for oracle in program.oracles
    )


def _turn(program: Program, private: dict[str, Any]) -> Turn:
    """Return one agent's turn: private parts traced, shared schedules as constants."""
    zero = jnp.zeros((), jnp.int32)
    shared = {name: values[0] for name, values in program.shared.items()}
    agent, scale, exponent = (private[name] for name in ("agent", "scale", "exponent"))
    values = shared | private["values"]
    return Turn(zero, zero, zero, zero, agent, scale, exponent, values)


def leg_of(  # noqa: PLR0913, PLR0917 - all that a leg states
    ledger: Ledger,
    oracles: tuple[Oracle, ...],
    terms: Terms,
    observer: Observer,
    network: NetworkKind,
    spec: Spec,
    part: Side,
) -> Leg:
    """Return the answers of a plan about one part of the records, as a leg.

    `observer`: that of `terms`, or of all messages where summation is not credited.
    """
    facts = tuple(Oracle.stated(oracle, spec) for oracle in oracles)
    trust, exact = network.trust(observer), all(one.holds_on_machine() for one in oracles)
    near, dealt = terms.adjacency, spec.dealt
    return Leg(part, None, spec.counts, ledger, facts, observer, near, dealt, trust, exact)


def check_traces(program: Program, spec: Spec) -> None:
    """Raise `InputError` unless a whole run of the program can be traced on records of its shape.

    The trace covers all that both runtimes execute: the algorithm's methods, the network's round,
    every question with its batch and noise, and the released model. Nothing is compiled. Targets
    are tried both as numbers and as labels.
    """

    def whole(program: Program, private: door.Private, raw: door.Raw) -> Any:
        live = door.Live(program.oracles, program.mechanism, private)
        return compute(program, live, raw, keep=frozenset({"models"}))

    turns, oracles = jax.eval_shape(agent_turns, program), program.oracles
    agenda = door.Agenda(turns, oracles, program.mechanism, program.template.shape)
    raw = agenda.numbers(max(spec.counts), program.rounds)
    first: Exception | None = None
    for kind in (program.template.dtype, jnp.dtype(np.int32)):
        try:
            jax.eval_shape(whole, program, _records(spec, program.template.dtype, kind), raw)
        except TaciturnError:
            raise
        except Exception as error:
            first = first or error
        else:
            return
    # of JAX a first line that ends in a colon says that types differ, and the second which
    name, (reason, *more) = type(program.algorithm).__name__, str(first).strip().split("\n")
    if reason.endswith(":"):
        reason += f" {next(filter(None, more), '').strip(' *;')}"
    raise InputError(
        f"{name} cannot be run with these questions ({type(first).__name__}: {reason}); nothing "
        "was charged. Mend the method, or ask the questions that it is for"
    ) from first


def _records(spec: Spec, precision: Any, targets: Any) -> door.Private:
    """Return types and shapes of all agents' records, without allocating them."""
    agents, rows = len(spec.counts), max(spec.counts)

    def zeros() -> door.Private:
        features = jnp.zeros((agents, rows, spec.shape[0]), precision)
        mask = jnp.zeros((agents, rows), precision)
        shard = Shard(features, jnp.zeros((agents, rows), targets), mask)
        return door.Private(shard, jnp.zeros(agents, precision))

    shapes: door.Private = jax.eval_shape(zeros)
    return shapes
