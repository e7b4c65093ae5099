"""A method whose code runs in a separate process, while this one holds the records.

    this process: plan, charge, records, door       method: receive, ask, tell, send, combine
       <- proposal: questions, schedules, shapes --
       <- queries ----------------------------------
       -- noised answers -------------------------->
       <- model ------------------------------------

**Guarantee.** The method's code is never imported here. This process receives numbers and the names
of the library's questions, whose bounds it derives itself. No object of the method's interpreter is
a record. Both processes belong to the same user: to keep an untrusted method away from files and
other processes, run the command as another user.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from io import BufferedIOBase
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from taciturn import algorithms
from taciturn.algorithms import Algorithm, Centred, Composition, Turn
from taciturn.engine.planning import Plan
from taciturn.engine.program import Program, shapes_of
from taciturn.engine.protocol import Keep, Trace
from taciturn.engine.runtimes import compute
from taciturn.errors import InputError, PrivacyError, TaciturnError
from taciturn.kernel.door import Door, Live, Record, Supply, answer_all, read_message, write_message
from taciturn.kernel.questions import KINDS, Loss
from taciturn.kernel.records import Spec
from taciturn.typing import Array, HostArray, PyTree

# raised where a message of the other process has the wrong form
_MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
# of several arrays, the shape of each and the name of its type
Shapes: TypeAlias = Sequence[tuple[Sequence[int], str]]

PATIENCE = 600.0  # longest time that a method may take for one message, seconds
_MOST_LINE = 500  # characters of a line that the method prints
# prefixes of the environment variables that the method's process inherits
_INHERITED = ("PATH", "HOME", "LANG", "LC_", "PYTHON", "JAX_", "XLA_", "TMPDIR", "VIRTUAL_ENV")
# The method's process and its children must end even if this process is killed. A guard process
# blocks on a pipe whose other end only this process holds open, then kills the group.
_GUARDED = """
import os, signal, sys
leash, method = int(sys.argv[1]), os.getpid()
if os.fork():
    os.close(leash)
    os.execv(sys.argv[2], sys.argv[2:])
for one in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(one, signal.SIG_IGN)
for stream in range(3):
    os.close(stream)
os.read(leash, 1)
os.killpg(method, signal.SIGKILL)
"""


class Peer:
    """The process of a method, `python -m module`.

    It is killed, with every child in its process group, when this object is collected, when this
    process ends for any reason, and when it takes longer than `PATIENCE` for a message.
    """

    def __init__(self, module: str) -> None:
        waits, leash = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-ISc", _GUARDED, str(waits), sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={name: text for name, text in os.environ.items() if name.startswith(_INHERITED)},
            pass_fds=(waits,),
            start_new_session=True,  # a group of its own, which Ctrl-C does not reach
        )
        os.close(waits)
        self._out = cast(BufferedIOBase, self._process.stdin)
        self._in = cast(BufferedIOBase, self._process.stdout)
        self._expired = threading.Event()
        weakref.finalize(self, _end, self._process, leash)
        errors = cast(BufferedIOBase, self._process.stderr)
        threading.Thread(target=_shown, args=(errors,), daemon=True).start()

    def request(self, kind: str, values: Any) -> Any:
        """Return the reply to a request; `InputError` with the method's message on refusal."""
        self.write(kind, values)
        return self.read("reply")

    def write(self, kind: str, values: Any) -> None:
        """Write a message; `InputError` if the process has ended."""
        try:
            with _timed(self._process, self._expired):
                write_message(self._out, kind, values)
        except OSError as error:
            raise InputError(self._failure()) from error

    def read(self, kind: str) -> Any:
        """Return the values of the next message; `InputError` unless it is of this kind."""
        try:
            with _timed(self._process, self._expired):
                message = read_message(self._in)
        except InputError as error:
            raise InputError(self._failure()) from error
        if message.kind == "error" and isinstance(message.values, str):
            raise InputError(f"the method: {_one_line(message.values)}")
        if message.kind != kind:
            raise InputError(
                f"the process of the method sent {_one_line(message.kind)!r} where {kind!r} was "
                "due; only the library may write to that pipe, so mend the method"
            )
        return message.values

    def _failure(self) -> str:
        """Return why no message came."""
        if self._expired.is_set():
            return (
                f"the process of the method took longer than {PATIENCE:g} seconds for a message, "
                "and was ended; let the method compute less at once"
            )
        return (
            "the process of the method has ended or sent an invalid message; its output, if any, "
            "is shown above: mend the method, and try it on a published data set"
        )


# no method of Peer: a certificate trusts only classes without foreign decorators (`custom_classes`)
@contextmanager
def _timed(process: subprocess.Popen[bytes], expired: threading.Event) -> Iterator[None]:
    """Kill a process, and note it, if the body takes longer than `PATIENCE`."""

    def expire() -> None:
        expired.set()
        _kill(process)

    timer = threading.Timer(PATIENCE, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that was not waited for, so that its number was not reused, and its group."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes], leash: int) -> None:
    """Close the pipes, give the process two seconds to exit, and kill its group."""
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            cast(BufferedIOBase, pipe).close()
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline and not os.waitid(
        os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
    ):
        time.sleep(0.01)
    _kill(process)
    os.close(leash)
    process.wait()


def _shown(errors: BufferedIOBase) -> None:
    """Copy the method's error stream to ours, each line marked as the method's."""
    with errors:
        for line in iter(partial(errors.readline, _MOST_LINE), b""):
            text = _one_line(line.decode(errors="replace").rstrip())
            print(f"the method: {text}", file=sys.stderr, flush=True)


def _one_line(text: str) -> str:
    printable = "".join(c if c.isprintable() else " " for c in text)
    return printable[:_MOST_LINE]


# questions as text: classes of the library by name with their fields, and no code

_NUMBERS = ("bool", "float32", "float64", "int32", "int64")
_ROOMS = ("taciturn.kernel.questions.", "taciturn.problems.")


def coded(value: Any) -> Any:
    """Return a question, or a part of one, as JSON-safe values.

    Raises `InputError` for a class that is not the library's.
    """
    if isinstance(value, eqx.Module):
        kind = type(value)
        _class_named(kind.__module__, kind.__name__)
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        return {
            "class": [kind.__module__, kind.__name__],
            "fields": {name: coded(getattr(value, name)) for name in fields},
        }
    if isinstance(value, tuple):
        return {"tuple": [coded(part) for part in value]}
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return {"array": np.asarray(value).tolist(), "type": str(value.dtype)}
    return value


def decode_question(value: Any) -> Any:
    """Return the value of `coded`; `InputError` unless every class is the library's.

    Constructors run, so fields are checked as for any caller.
    """
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(decode_question(part) for part in value["tuple"])
    if "array" in value:
        if value["type"] not in _NUMBERS:
            raise InputError("a question holds an array of a type that is not numeric")
        return np.array(value["array"], value["type"])
    fields = {str(name): decode_question(part) for name, part in value["fields"].items()}
    return _class_named(*value["class"])(**fields)


def _class_named(module: str, name: str) -> type[eqx.Module]:
    # only modules that are already imported: a name must not cause an import
    found = getattr(sys.modules.get(module), name, None) if module.startswith(_ROOMS) else None
    if not (isinstance(found, type) and issubclass(found, eqx.Module)):
        raise InputError(
            f"{name} is no class of the library; a method in a separate process may ask only the "
            "library's questions, about losses of the library"
        )
    return found


@dataclass(frozen=True, eq=False)
class _Described:
    """A method's questions, schedules and shapes, as its process describes them."""

    peer: Peer
    proposal: str  # which it describes
    loss: Loss | None
    rho: float | None
    questions: HostArray  # (T, E)
    schedules: dict[str, HostArray]
    message: Shapes
    inbox: Shapes


class _Elsewhere(Algorithm):
    """The stand-in of a method that runs in another process."""

    runs_here: ClassVar[bool] = False

    method: str = eqx.field(static=True)
    known: _Described = eqx.field(static=True, repr=False)

    @property
    @override
    def loss(self) -> Loss | None:
        return self.known.loss

    @property
    @override
    def step_rho(self) -> float | None:
        return self.known.rho

    @override
    def questions(self, rounds: int) -> HostArray:
        return self.known.questions

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Any) -> dict[str, HostArray]:
        return dict(self.known.schedules)

    @override
    def start(self, template: Array) -> PyTree:
        return ()

    @override
    def ask(self, state: PyTree, inbox: PyTree, turn: Turn) -> Any:
        raise PrivacyError("a method that runs in a separate process asks nothing in this one")

    @override
    def tell(self, state: PyTree, inbox: PyTree, turn: Turn, answer: Array) -> PyTree:
        return state

    @override
    def send(self, state: PyTree, inbox: PyTree, turn: Turn) -> tuple[PyTree, PyTree]:
        return state, _zeros(self.known.message)

    def first_public(self, template: Array) -> PyTree:
        """Return an inbox of zeros, whose shape is all that is used of it."""
        del template
        return _zeros(self.known.inbox)

    first_inbox = first_token = first_public

    def combine(self, public: PyTree, mean_message: PyTree, turn: Turn) -> PyTree:
        """Return the public value; the other process computes the true one."""
        del mean_message, turn
        return public

    def model(self, public: PyTree) -> Array:
        """Return no model; the other process computes the true one."""
        del public
        return jnp.zeros(())


class _OnStar(_Elsewhere, algorithms.StarAlgorithm):
    pass


class _ByGossip(_Elsewhere, algorithms.GossipAlgorithm):
    pass


class _OnRelay(_Elsewhere, algorithms.RelayAlgorithm):
    pass


# by the kind of network, the stand-in and the class of methods that it stands for
_CLASSES: Mapping[str, tuple[Any, type]] = MappingProxyType(
    {
        "star": (_OnStar, algorithms.StarAlgorithm),
        "gossip": (_ByGossip, algorithms.GossipAlgorithm),
        "relay": (_OnRelay, algorithms.RelayAlgorithm),
    }
)


def _zeros(shapes: Shapes) -> PyTree:
    return [jnp.zeros(tuple(shape), kind) for shape, kind in shapes]


def described(plan: Plan) -> dict[str, Any]:
    """Return the description of a plan that the method's process sends."""
    program: Any = plan.program
    shapes = shapes_of(program)
    flat = {
        name: [[list(leaf.shape), str(leaf.dtype)] for leaf in jax.tree.leaves(tree)]
        for name, tree in (("message", shapes.message), ("inbox", shapes.inbox))
    }
    algorithm = program.algorithm
    return flat | {
        "class": type(algorithm).__name__,
        "kind": next(name for name, (_, kind) in _CLASSES.items() if isinstance(algorithm, kind)),
        "rho": algorithm.step_rho,
        "oracles": [coded(oracle) for oracle in program.oracles],
        "questions": np.asarray(program.questions, np.int64),
        "schedules": {name: np.asarray(one) for name, one in plan.schedules.items()},
    }


def composition_of(peer: Peer, proposal: str, loss: Loss) -> Composition:
    """Return the stand-in of a method and its questions, as its process describes a proposal.

    Raises `InputError` unless the questions and their losses are the library's.
    """
    description: dict[str, Any] = peer.request("propose", proposal)
    try:
        oracles = tuple(decode_question(one) for one in _listed(description["oracles"]))
        known = _Described(
            peer=peer,
            proposal=proposal,
            loss=loss,
            rho=None if description["rho"] is None else float(description["rho"]),
            questions=np.array(description["questions"], dtype=int),
            schedules={
                str(name): np.array(one, np.float64)
                for name, one in description["schedules"].items()
                if str(name).isidentifier()
            },
            message=_shapes(description["message"]),
            inbox=_shapes(description["inbox"]),
        )
        name = str(description["class"])
        stand_in, _ = _CLASSES[description["kind"]]
        algorithm = stand_in(name if name.isidentifier() else "Method", known)
    except TaciturnError:
        raise
    except _MALFORMED as error:
        raise InputError(
            "the process of the method sent an invalid description; only the library may write to "
            "that pipe, so mend the method"
        ) from error
    for oracle in oracles:
        if type(oracle) not in KINDS:
            raise InputError(
                f"the method asks a {type(oracle).__name__}; in a separate process it may ask only "
                "the library's questions"
            )
    return Composition(algorithm, oracles)


def answered_elsewhere(
    program: Program,
    door: Live,
    supply: Supply,
    *,
    keep: Keep,
    report: Callable[[Any], None] | None,
) -> tuple[Array, Trace]:
    """Return the model and trace of a run whose method is in a separate process.

    The trace keeps only models, answers and the last public value.
    """
    method: Any = program.algorithm
    peer, places, done = method.known.peer, program.questions.shape[1], itertools.count(1)
    peer.write("run", [method.known.proposal, *sorted(keep & {"models", "publics"})])

    def answered(answers: HostArray) -> None:
        peer.write("answer", answers)
        number = next(done)
        if report is not None and number % places == 0:
            report(number // places)

    try:
        records = answer_all(door, supply, partial(peer.read, "ask"), answered)
        model, models, public = _released(peer.read("released"), program, keep)
    except TaciturnError:
        raise
    except _MALFORMED as error:
        raise InputError(
            "the method sent an invalid query or model; ask with the classes of "
            "taciturn.kernel.questions, and release an array of the model's shape"
        ) from error
    if "answers" not in keep:
        records = records._replace(answer=None)
    records = program.network.spread_records(jax.tree.map(jnp.asarray, records))
    return jnp.asarray(model), Trace(models, records, None, public)


def _released(
    values: Any, program: Program, keep: Keep
) -> tuple[HostArray, HostArray | None, HostArray | None]:
    """Return model, models and centre; `InputError` for a wrong shape, type or value."""
    shape, dtype = program.template.shape, program.template.dtype
    model, models, public = (values[name] for name in ("model", "models", "public"))
    if type(model) is not np.ndarray or (model.shape, model.dtype) != (shape, dtype):
        raise InputError(f"the method released no model of shape {shape} in {dtype}")
    if models is not None and (models.shape, models.dtype) != ((program.rounds, *shape), dtype):
        raise InputError("the method released models that are not one for each round")
    wanted = public is not None or "publics" in keep
    if wanted and not (public.shape == shape[:1] and np.all(np.isfinite(public))):
        raise InputError("the method released a centre that is no vector of numbers")
    return model, models, public


class Piped(Door):
    """The door in the method's process: it sends queries, receives answers and holds no record."""

    exchange: Callable[..., Any] = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)
    dtype: Any = eqx.field(static=True)

    @override
    def __call__(self, queries: PyTree, turn: Turn, chance: Any) -> tuple[Array, Record]:
        """Return the answers, and an empty record: the other process keeps the true one."""
        del chance
        agents = turn.agent.shape[0]
        form = jax.eval_shape(lambda: jnp.zeros((agents, *self.shape), self.dtype))
        answers = jax.experimental.io_callback(self.exchange, form, queries, ordered=True)
        kind = jnp.broadcast_to(turn.question, turn.agent.shape)
        return answers, Record(kind, turn.scale, turn.exponent, answers)


def serve(plan: Plan, pipes: tuple[BufferedIOBase, BufferedIOBase], keep: Keep) -> None:
    """Run a plan's method in its separate process, against the door behind the pipe."""
    program = plan.program
    shape = program.oracles[0].answer_shape(program.template.shape)

    def exchange(queries: PyTree) -> HostArray:
        write_message(pipes[1], "ask", jax.tree.map(np.asarray, queries))
        answers: HostArray = read_message(pipes[0]).values
        return answers

    door = Piped(exchange, shape, program.template.dtype)
    model, trace = compute(program, door, keep=keep)
    public = None
    if "publics" in keep and isinstance(program.algorithm, Centred):
        public = np.asarray(program.algorithm.centre(jax.tree.map(lambda x: x[-1], trace.publics)))
    models = None if trace.models is None else np.asarray(trace.models)
    released = {"model": np.asarray(model), "models": models, "public": public}
    write_message(pipes[1], "released", released)


def _shapes(value: Any) -> Shapes:
    return tuple((tuple(map(int, shape)), str(kind)) for shape, kind in _listed(value))


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value
