"""Whether summation may be credited: decided by tracing the algorithm.

Under secure aggregation the observer sees mean_i(message_i) each round. The noises of honest agents
add up in it only if, given what the observer already knows, message_i is an affine function, with
public coefficients that are the same for all agents, of one fresh answer that was asked at public
state. Traced here:

1. the query does not depend on the agent's state, its identity or its own schedules;
2. nor does the message, other than through the answer;
3. the message is affine in the answer: between the two stand only operations that are known to be
   affine (sums, public multiples, reshaping). Rounding, signs, comparisons, narrowing to a shorter
   type and whatever else is not on the list are refused: their derivative may vanish where they
   are anything but affine.

Every value is `CLEAN` (public), `AFFINE` (in the answer, with clean coefficients) or `TAINTED`.
Operations with effects, on references or on the host, are refused wherever they stand. What cannot
be shown is not credited, nor are answers on sampled batches, for whose sums there is no accountant
here: the run is then certified at the value for the observer of all messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

from taciturn.algorithms import StarAlgorithm, Turn
from taciturn.engine.door import Live, Private, Raw
from taciturn.engine.network import NetworkKind
from taciturn.engine.program import Program
from taciturn.engine.runtimes import compute
from taciturn.engine.supply import raw_shapes
from taciturn.errors import InputError, TaciturnError
from taciturn.oracles import Oracle
from taciturn.privacy import Ledger, Leg, Observer, Terms
from taciturn.problems import Shard
from taciturn.spec import Spec
from taciturn.typing import Array, PyTree

Mark = Literal["clean", "affine", "tainted"]
CLEAN: Mark = "clean"
AFFINE: Mark = "affine"
TAINTED: Mark = "tainted"

_SUMS = frozenset({"add", "sub", "add_any", "neg", "reduce_sum", "concatenate", "copy"})
_SHAPES = frozenset(
    {"reshape", "broadcast_in_dim", "transpose", "squeeze", "expand_dims", "slice", "rev"}
)
_PRODUCTS = frozenset({"mul", "dot_general"})
_CALLS = frozenset({"pjit", "jit", "closed_call", "core_call"})


def credits_summation(program: Program) -> bool:
    """Return whether the observer of sums may be credited with all honest agents' noise."""
    if not (program.network.aggregates and _adds_noise_once(program)):
        return False
    algorithm, template = cast(StarAlgorithm, program.algorithm), program.template
    answer = jnp.zeros(program.oracles[0].answer_shape(template.shape), template.dtype)
    one, zero = jnp.ones((), template.dtype), jnp.zeros((), jnp.int32)
    # what differs from agent to agent in a turn
    own = {"agent": zero, "scale": one, "exponent": zero}
    private = (algorithm.start(template), own | {"values": dict.fromkeys(program.per_agent, one)})
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

    sent = jax.eval_shape(message, private, public, answer)
    steps = ((query, (private, public)), (message, (private, public, answer)))
    # values must reach the outputs by operations alone: what is written to a reference, or handed
    # to the host, can be read again elsewhere
    for step, given in (*steps, (released, (public, sent))):
        if not _has_no_effects(jax.make_jaxpr(step)(*given).jaxpr):
            return False
    queries = _marks_out(query, (private, public), (TAINTED, CLEAN))
    messages = _marks_out(message, (private, public, answer), (TAINTED, CLEAN, AFFINE))
    return set(queries) <= {CLEAN} and TAINTED not in messages


def _adds_noise_once(program: Program) -> bool:
    """Whether one answer on all records, with noise on it, is all that a message may hold."""
    if program.questions.shape[1] != 1:  # several answers reach one message: not analysed here
        return False
    # a large public part, added to each noised answer, would round away its noise before the sum
    return all(
        oracle.sampling.rate == 1
        and oracle.noise.adds
        and type(oracle).public_part is Oracle.public_part
        for oracle in program.oracles
    )


def _has_no_effects(jaxpr: Any) -> bool:
    for equation in jaxpr.eqns:
        variables = (*equation.invars, *equation.outvars)
        if equation.effects or any("Ref" in type(v.aval).__name__ for v in variables):
            return False
        inner = (getattr(value, "jaxpr", value) for value in _flat(equation.params.values()))
        if not all(_has_no_effects(part) for part in inner if hasattr(part, "eqns")):
            return False
    return not jaxpr.effects


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flat(value)
        else:
            yield value


def _turn(program: Program, private: dict[str, Any]) -> Turn:
    """One agent's turn: what differs between agents traced, the shared schedules as constants."""
    zero = jnp.zeros((), jnp.int32)
    shared = {name: values[0] for name, values in program.shared.items()}
    agent, scale, exponent = (private[name] for name in ("agent", "scale", "exponent"))
    values = shared | private["values"]
    return Turn(zero, zero, zero, zero, agent, scale, exponent, values)


def _marks_out(
    function: Callable[..., PyTree], arguments: tuple[PyTree, ...], marks: tuple[Mark, ...]
) -> list[Mark]:
    """Return the marks of the outputs of `function` when its arguments carry `marks`."""
    jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    leaves = [
        mark
        for argument, mark in zip(arguments, marks, strict=True)
        for _ in jax.tree.leaves(argument)
    ]
    return _walk(jaxpr, leaves)


def _walk(jaxpr: Any, inputs: Sequence[Mark]) -> list[Mark]:
    marks: dict[Any, Mark] = dict(zip(jaxpr.invars, inputs, strict=True))

    def mark_of(variable: Any) -> Mark:
        return CLEAN if isinstance(variable, jex.Literal) else marks.get(variable, CLEAN)

    for equation in jaxpr.eqns:
        results = _through(equation, [mark_of(v) for v in equation.invars])
        marks.update(zip(equation.outvars, results, strict=True))
    return [mark_of(v) for v in jaxpr.outvars]


def _through(equation: Any, marks: list[Mark]) -> list[Mark]:
    """Return the marks of one operation's outputs."""
    name, outputs = equation.primitive.name, len(equation.outvars)
    if set(marks) <= {CLEAN}:
        return [CLEAN] * outputs
    if name in _CALLS:
        return _walk(equation.params["jaxpr"].jaxpr, marks)
    if TAINTED in marks or not _keeps_affine(equation, name, marks):
        return [TAINTED] * outputs
    return [AFFINE] * outputs


def _keeps_affine(equation: Any, name: str, marks: list[Mark]) -> bool:
    if name in _SUMS or name in _SHAPES:
        # operands other than the first of a reshaping are places, which must not move
        return name in _SUMS or AFFINE not in marks[1:]
    if name in _PRODUCTS:
        return marks.count(AFFINE) == 1
    if name == "div":
        return marks == [AFFINE, CLEAN]
    if name == "select_n":  # what is public chooses between affine values
        return marks[0] == CLEAN
    if name == "convert_element_type":  # every value of the old type is one of the new
        old, new = equation.invars[0].aval.dtype, equation.params["new_dtype"]
        floating = jnp.issubdtype(old, jnp.floating) and jnp.issubdtype(new, jnp.floating)
        return floating and jnp.promote_types(old, new) == new
    return False


def leg_of(
    ledger: Ledger,
    oracles: tuple[Oracle, ...],
    terms: Terms,
    observer: Observer,
    network: NetworkKind,
    spec: Spec,
) -> Leg:
    """Return the answers of a plan about the records that are trained on.

    `observer`: that of `terms`, or the observer of all messages where nothing is credited to
    summation.
    """
    facts = tuple(Oracle.stated(oracle, spec) for oracle in oracles)
    trust, exact = network.trust(observer), all(one.holds_on_machine() for one in oracles)
    near, dealt = terms.adjacency, spec.dealt
    return Leg("training", None, spec.counts, ledger, facts, observer, near, dealt, trust, exact)


def check_traces(program: Program, spec: Spec) -> None:
    """Raise `InputError` unless a whole run of the program can be traced on records of its shape.

    Traced is what both runtimes execute: all methods of the algorithm, the network's round, every
    question with its batch and noise, and the released model, from types and shapes alone. Nothing
    is compiled. Targets are tried as numbers and as labels, as records may have either.
    """

    def whole(program: Program, private: Private, raw: Raw) -> Any:
        door = Live(program.oracles, program.mechanism, private)
        return compute(program, door, raw, keep=frozenset({"models"}))

    raw = raw_shapes(program, max(spec.counts), program.rounds, program.scales.shape[-1])

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
    name, said = type(program.algorithm).__name__, str(first).strip().split("\n", 1)[0]
    raise InputError(
        f"{name} cannot be run with these questions ({type(first).__name__}: {said}); nothing was "
        "charged. Mend the method, or ask the questions that it is for"
    ) from first


def _records(spec: Spec, precision: Any, targets: Any) -> Private:
    """Return the types and shapes of all agents' records; nothing is allocated."""
    agents, rows = len(spec.counts), max(spec.counts)

    def zeros() -> Private:
        features = jnp.zeros((agents, rows, spec.shape[0]), precision)
        mask = jnp.zeros((agents, rows), precision)
        shard = Shard(features, jnp.zeros((agents, rows), targets), mask)
        return Private(shard, jnp.zeros(agents, precision))

    shapes: Private = jax.eval_shape(zeros)
    return shapes
