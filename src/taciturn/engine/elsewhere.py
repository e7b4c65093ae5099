"""A method whose code runs in a process of its own, while this one opens the records.

    this process: plan, charge, records, door       its process: receive, ask, tell, send, combine
       <- proposal: questions, schedules, shapes --
       <- queries ----------------------------------
       -- noised answers -------------------------->
       <- model ------------------------------------

**Guarantee.** The method's code is never imported here: of it come numbers, and the names of the
library's questions, whose bounds this process derives itself. The method may look at every object
of its interpreter: none is a record. Its process belongs to the same user: where it is not trusted
to leave files and other processes alone, run the command as another user.
"""

from __future__ import annotations

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

from taciturn.algorithms import (
    Algorithm,
    Centred,
    Composition,
    GossipAlgorithm,
    RelayAlgorithm,
    StarAlgorithm,
    Turn,
)
from taciturn.engine.coded import coded, decoded
from taciturn.engine.planning import Plan
from taciturn.engine.program import Program, shapes_of
from taciturn.engine.protocol import Keep, Trace
from taciturn.engine.runtimes import compute
from taciturn.errors import InputError, PrivacyError, TaciturnError
from taciturn.kernel.door import Door, Live, Record, Supply, answer_all, read_message, write_message
from taciturn.kernel.questions import KINDS, Loss
from taciturn.kernel.records import Spec
from taciturn.typing import Array, HostArray, PyTree

# errors by which a message of the wrong form shows
_MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
# of arrays, each its shape and the name of its type
Shapes: TypeAlias = Sequence[tuple[Sequence[int], str]]


_MOST_LINE = 500
# beginnings of the names of variables that the process of a method inherits
_INHERITED = ("PATH", "HOME", "LANG", "LC_", "PYTHON", "JAX_", "XLA_", "TMPDIR", "VIRTUAL_ENV")


# The process of a method, and what it starts, end with the process that holds the records, also if
# that is killed: a guard beside them waits on a pipe whose other end that process alone holds open.
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
PATIENCE = 600.0  # seconds that a method may take for one message


class Peer:
    """The process of a method, which `module` answers for: `python -m module`.

    It ends, with all that it started and that stayed in its group, when nobody holds this object,
    when this process ends in whatever way, and when it takes longer than `PATIENCE` for a message.
    """

    def __init__(self, module: str) -> None:
        waits, self._leash = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-ISc", _GUARDED, str(waits), sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={name: text for name, text in os.environ.items() if name.startswith(_INHERITED)},
            pass_fds=(waits,),
            start_new_session=True,  # a group, and Ctrl-C is for this process
        )
        os.close(waits)
        self._out = cast(BufferedIOBase, self._process.stdin)
        self._in = cast(BufferedIOBase, self._process.stdout)
        self._clock = _Clock()
        weakref.finalize(self, _end, self._process, self._leash, self._clock)
        for work in (
            partial(_shown, cast(BufferedIOBase, self._process.stderr)),
            partial(_watch, self._clock, self._process),
        ):
            threading.Thread(target=work, daemon=True).start()

    def request(self, kind: str, values: Any) -> Any:
        """Return the reply to a request; `InputError` with its line if it is refused."""
        self.write(kind, values)
        return self.read("reply")

    def write(self, kind: str, values: Any) -> None:
        """Write a message; `InputError` if nobody is there to read it."""
        try:
            with self._clock.running():
                write_message(self._out, kind, values)
        except OSError as error:
            raise InputError(self._ended()) from error

    def read(self, kind: str) -> Any:
        """Return the values of the next message; `InputError` unless it is of this kind."""
        try:
            with self._clock.running():
                message = read_message(self._in)
        except InputError as error:
            raise InputError(self._ended()) from error
        if message.kind == "error" and isinstance(message.values, str):
            raise InputError(f"the method: {_one_line(message.values)}")
        if message.kind != kind:
            raise InputError(
                f"the process of the method sent {_one_line(message.kind)!r} where {kind!r} was "
                "due; a method leaves the pipe to the library, so mend the one that writes to it"
            )
        return message.values

    def _ended(self) -> str:
        """Return what to say of a process that sends no message."""
        if self._clock.expired:
            return (
                f"the process of the method took longer than {PATIENCE:g} seconds for a message, "
                "and was ended; let the method compute less at once"
            )
        return (
            "the process of the method has ended, or sent what is no message; what it printed, if "
            "anything, stands above: mend the method, and try it on a published data set"
        )


class _Clock:
    """How long a message has been waited for; `since` is None while none is."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.expired, self.over = False, threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time of a message."""
        self.since = time.monotonic()
        try:
            yield
        finally:
            self.since = None


def _watch(clock: _Clock, process: subprocess.Popen[bytes]) -> None:
    """End a process that takes too long for a message."""
    while not clock.over.wait(1.0):
        since = clock.since
        if since is not None and time.monotonic() - since > PATIENCE:
            clock.expired = True
            _kill(process)
            return


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process that nobody has waited for, so that its number is its own, and its group."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes], leash: int, clock: _Clock) -> None:
    clock.over.set()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            cast(BufferedIOBase, pipe).close()
    patient = time.monotonic() + 2
    while time.monotonic() < patient and not os.waitid(
        os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
    ):
        time.sleep(0.01)
    _kill(process)
    os.close(leash)
    process.wait()


def _shown(errors: BufferedIOBase) -> None:
    """Show what a method prints, as what it is."""
    with errors:
        for line in iter(partial(errors.readline, _MOST_LINE), b""):
            text = _one_line(line.decode(errors="replace").rstrip())
            print(f"the method: {text}", file=sys.stderr, flush=True)


def _one_line(text: str) -> str:
    printable = "".join(c if c.isprintable() else " " for c in text)
    return printable[:_MOST_LINE]


@dataclass(frozen=True, eq=False)
class _Described:
    """What this process knows of a method: its questions and schedules, and shapes."""

    peer: Peer
    loss: Loss | None
    rho: float | None
    questions: HostArray  # (T, E)
    schedules: dict[str, HostArray]
    message: Shapes
    inbox: Shapes


class _Elsewhere(Algorithm):
    """What stands here for a method."""

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
        raise PrivacyError("a method that runs in a process of its own asks nothing in this one")

    @override
    def tell(self, state: PyTree, inbox: PyTree, turn: Turn, answer: Array) -> PyTree:
        return state

    @override
    def send(self, state: PyTree, inbox: PyTree, turn: Turn) -> tuple[PyTree, PyTree]:
        return state, _zeros(self.known.message)


class _OnStar(_Elsewhere, StarAlgorithm):
    @override
    def first_public(self, template: Array) -> PyTree:
        return _zeros(self.known.inbox)

    @override
    def combine(self, public: PyTree, mean_message: PyTree, turn: Turn) -> PyTree:
        return public


class _ByGossip(_Elsewhere, GossipAlgorithm):
    @override
    def first_inbox(self, template: Array) -> PyTree:
        return _zeros(self.known.inbox)

    @override
    def model(self, state: PyTree) -> Array:
        return jnp.zeros(())


class _OnRelay(_Elsewhere, RelayAlgorithm):
    @override
    def first_token(self, template: Array) -> PyTree:
        return _zeros(self.known.inbox)

    @override
    def model(self, token: PyTree) -> Array:
        return jnp.zeros(())


_CLASSES: Mapping[str, Any] = MappingProxyType(
    {"star": _OnStar, "gossip": _ByGossip, "relay": _OnRelay}
)


def _zeros(shapes: Shapes) -> PyTree:
    return [jnp.zeros(tuple(shape), kind) for shape, kind in shapes]


def described(plan: Plan) -> dict[str, Any]:
    """Return what the process of a method says of its plan."""
    program: Any = plan.program
    shapes = shapes_of(program)
    flat = {
        name: [[list(leaf.shape), str(leaf.dtype)] for leaf in jax.tree.leaves(tree)]
        for name, tree in (("message", shapes.message), ("inbox", shapes.inbox))
    }
    algorithm = program.algorithm
    kinds = (("gossip", GossipAlgorithm), ("relay", RelayAlgorithm), ("star", StarAlgorithm))
    return flat | {
        "class": type(algorithm).__name__,
        "kind": next(name for name, kind in kinds if isinstance(algorithm, kind)),
        "rho": algorithm.step_rho,
        "oracles": [coded(oracle) for oracle in program.oracles],
        "questions": np.asarray(program.questions, np.int64),
        "schedules": {name: np.asarray(one) for name, one in plan.schedules.items()},
    }


def composition_of(peer: Peer, loss: Loss, description: dict[str, Any]) -> Composition:
    """Return what stands here for a method, and its questions, from what its process says of it.

    `InputError` unless the questions are the library's, about losses of the library.
    """
    try:
        oracles = tuple(decoded(one) for one in _listed(description["oracles"]))
        known = _Described(
            peer=peer,
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
        algorithm = _CLASSES[description["kind"]](name if name.isidentifier() else "Method", known)
    except TaciturnError:
        raise
    except _MALFORMED as error:
        raise InputError(
            "the process of the method describes it in another form than the library does; a "
            "method leaves the pipe to the library, so mend the one that writes to it"
        ) from error
    for oracle in oracles:
        if type(oracle) not in KINDS:
            raise InputError(
                f"the method asks a {type(oracle).__name__}; in a process of its own it asks "
                "questions of the library alone"
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
    """Return what a runtime returns, of a run whose method is in a process of its own.

    Of the trace only models, answers and the last public value are kept.
    """
    method: Any = program.algorithm
    peer, places, done = method.known.peer, program.questions.shape[1], itertools.count(1)
    peer.write("run", sorted(keep & {"models", "publics"}))

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
            "the method asked with what is no query, or released what is no model; ask with the "
            "classes of taciturn.kernel.questions, and release an array of the model's shape"
        ) from error
    if "answers" not in keep:
        records = records._replace(answer=None)
    records = program.network.spread_records(jax.tree.map(jnp.asarray, records))
    return jnp.asarray(model), Trace(models, records, None, public)


def _released(
    values: Any, program: Program, keep: Keep
) -> tuple[HostArray, HostArray | None, HostArray | None]:
    """Return model, models and centre; `InputError` unless they are what they should be."""
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
    """The door as a method's process has it: queries go out, answers come in. It holds nothing."""

    exchange: Callable[..., Any] = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)
    dtype: Any = eqx.field(static=True)

    @override
    def __call__(self, queries: PyTree, turn: Turn, chance: Any) -> tuple[Array, Record]:
        """Return what came back, and an empty record: the other process keeps the true one."""
        del chance
        agents = turn.agent.shape[0]
        form = jax.eval_shape(lambda: jnp.zeros((agents, *self.shape), self.dtype))
        answers = jax.experimental.io_callback(self.exchange, form, queries, ordered=True)
        kind = jnp.broadcast_to(turn.question, turn.agent.shape)
        return answers, Record(kind, turn.scale, turn.exponent, answers)


def serve(plan: Plan, pipes: tuple[BufferedIOBase, BufferedIOBase], keep: Keep) -> None:
    """Run a plan's method in the process of its own, against the door behind the pipe."""
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
