"""The console: paths that are typed, lines that are printed, Ctrl-C and progress."""

from __future__ import annotations

import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import typer
from typer.core import TyperCommand

from taciturn.errors import InputError


def open_streams() -> None:
    """Open the null device for each standard stream that the caller closed.

    Otherwise a file opened later takes its descriptor, and libraries print into that file.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            stream = open(os.devnull, "r+", encoding="utf-8")  # noqa: SIM115 - to the end
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def emit(values: dict[str, Any] | list[dict[str, Any]]) -> None:
    """Print one strictly valid JSON object, or a list of such."""
    typer.echo(json.dumps(values, allow_nan=False))


def error_line(text: str, *, kind: str = "error: ") -> None:
    """Print one line on standard error, without the line breaks of the text.

    A full or closed standard error does not end the run, which may have been charged.
    """
    with suppress(OSError):
        typer.echo(f"taciturn: {kind}{printable(' '.join(text.split()))}", err=True)


def say(text: str) -> None:
    """Print text; a full or closed standard output does not end the run."""
    try:
        typer.echo(text)
    except OSError as error:
        line = f"standard output cannot be written ({error.strerror}); the run continues"
        error_line(line, kind="warning: ")


def printable(text: str) -> str:
    """Return one line of text with control characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_of(option: str, value: str, choices: Sequence[str]) -> str:
    """Return `value` if it is one of the choices, else raise `InputError` with the list."""
    if value not in choices:
        raise InputError(f"{option} is {value!r}; choose from {', '.join(choices)}")
    return value


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as text in aligned columns; the last column may be of any width."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def path(text: str) -> Path:
    """Return a path; `typer.BadParameter` if it is empty (Python: the folder) or not printable."""
    if not text:
        raise typer.BadParameter("it is empty; name a file or folder (. is the current folder)")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise typer.BadParameter("its name is not text in UTF-8; rename it") from error
    if "\0" in text:
        raise typer.BadParameter("no name of a file holds a null byte; name another")
    return Path(text)


def path_option(text: str, group: str | None = None) -> Any:
    """Return the declaration of an option whose value is a path."""
    return typer.Option(parser=path, help=text, rich_help_panel=group)


def check_free(out: Path | None, *, force: bool) -> None:
    """Raise `InputError` if a new file exists, unless it may be replaced."""
    if out is not None and out.exists() and not (force and out.is_file()):
        raise InputError(f"{out} exists; name a new file, or pass --force to replace a file")


def first_given(options: Mapping[str, Any], names: Iterable[str] | None = None) -> str | None:
    """Return the first of these options that has a value, as typed; None if none has."""
    given = [n for n in (options if names is None else names) if options.get(n) is not None]
    return f"--{given[0].replace('_', '-')}" if given else None


def read_text(file: Path) -> str:
    """Return the text of a file in UTF-8."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file} cannot be read ({type(error).__name__}); name a readable file"
        ) from error


BAD_INPUT, BROKEN_LAW, INTERRUPTED = 2, 3, 130  # exit codes
_T = TypeVar("_T")
_WORKER = "taciturn computation"
# how much later than the first process another may come to the same refusal, in seconds
_GRACE = 5.0


def interruptible(work: Callable[[], _T]) -> _T:
    """Return `work()`, computed on another thread while this one waits for signals.

    Compiled code handles no signal before it returns, and a signal that arrives in a callback of
    the garbage collector is lost; a waiting thread receives them all. An exception of `work` is
    re-raised here.
    """
    future: Future[_T] = Future()

    def compute() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # handed over, whatever it is
            future.set_exception(error)

    threading.Thread(target=compute, name=_WORKER, daemon=True).start()
    while not future.done():  # a signal that comes just before a wait begins does not end it
        wait((future,), timeout=0.25)
    return future.result()


def leave_if_busy(code: int) -> None:
    """End the process at once if an orderly exit would wait or crash.

    It would wait for an abandoned computation, or for other processes of the same run.
    """
    jax = sys.modules.get("jax")  # not imported for this
    connected = False
    if jax is not None and jax.distributed.is_initialized():
        connected = True
        if jax.process_index() == 0 and code != INTERRUPTED:
            time.sleep(_GRACE)  # JAX aborts those that outlive the first: let them refuse in words
    if connected or any(thread.name == _WORKER for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@contextmanager
def _progress(counted: str, start: str, total: int | None, *, transient: bool) -> Iterator[Any]:
    """Yield a function that updates a bar on standard error, of a task with this description."""
    from rich import progress as bars  # noqa: PLC0415 - start-up
    from rich.console import Console  # noqa: PLC0415 - start-up

    columns = ("{task.description}", bars.BarColumn(), counted, bars.TimeElapsedColumn())
    further = ("elapsed,", bars.TimeRemainingColumn(), "remaining")
    console = Console(stderr=True)
    with bars.Progress(
        *columns,
        *further,
        console=console,
        transient=transient,
        redirect_stdout=sys.stdout.isatty(),
    ) as progress:
        yield partial(progress.update, progress.add_task(start, total=total, counted=""))


@contextmanager
def reading_bar(*, shown: bool) -> Iterator[Callable[[int, int | None], None] | None]:
    """Yield a function of the number of rows read and of all rows; None if no bar is shown.

    The bar is cleared at the end.
    """
    if not (shown and sys.stderr.isatty()):
        yield None
        return
    with _progress("{task.completed:,} rows", "counting", None, transient=True) as update:

        def report(done: int, total: int | None) -> None:
            doing = "counting" if total is None else "reading"
            update(completed=done, total=total, description=doing)

        yield report


@contextmanager
def bar(rounds: int, *, shown: bool) -> Iterator[Bar | None]:
    """Yield a report of finished rounds; None if nothing is to be shown.

    On a terminal it moves a bar; elsewhere it prints a line from time to time. Calls may come in
    any order, from any thread, and after the bar has ended.
    """
    if not shown:
        yield None
        return
    if not sys.stderr.isatty():
        yield _Lines(rounds)
        return
    with _progress("{task.fields[counted]}", "preparing", rounds, transient=False) as update:
        yield Bar(rounds, update)


class Bar:
    """A bar of rows that are read, then of rounds that are finished."""

    by_block = False

    def __init__(self, rounds: int, update: Callable[..., None]) -> None:
        self.rounds, self.most, self.update = rounds, 0, update

    def __call__(self, finished: Any) -> None:
        """Show the number of finished rounds."""
        self.most = max(int(finished), self.most)
        doing = "training" if self.most < self.rounds else "measuring"
        counted = f"{self.most:{len(str(self.rounds))}}/{self.rounds} rounds"
        self.update(completed=self.most, total=self.rounds, description=doing, counted=counted)

    def reading(self, done: int, total: int | None) -> None:
        """Show the number of rows that were read, and of all."""
        done, whole = (0, self.rounds) if done == total else (done, total)
        self.update(completed=done, total=whole, description="reading", counted=f"{done:,} rows")


LINE_SECONDS = 30.0


class _Lines(Bar):
    """A report in lines, one every `LINE_SECONDS` at most."""

    by_block = True

    def __init__(self, rounds: int) -> None:
        super().__init__(rounds, lambda **_: None)
        self.last = time.monotonic()

    def __call__(self, finished: Any) -> None:
        now = time.monotonic()
        if now - self.last >= LINE_SECONDS:
            self.last = now
            error_line(f"round {finished} of {self.rounds}", kind="")


F = TypeVar("F", bound=Callable[..., Any])


class Option(NamedTuple):
    """An option of a command: what is typed, help text, and the panel of the help page.

    Options without a group come first: those that most people need.
    """

    kind: Any
    help: str
    group: str | None = None


TABLES, OUTPUT = "Tables", "Output"
FORM_OPTIONS: Mapping[str, Option] = {
    "delimiter": Option(
        str, "Cell separator, such as ';' or tab. [default: from the bounds, or a comma]", TABLES
    ),
    "decimal": Option(str, "Decimal mark, . or ,. [default: from the bounds, or a point]", TABLES),
    "thousands": Option(
        str, "Separator of digit groups. [default: from the bounds, or none]", TABLES
    ),
    "encoding": Option(
        str, "Text encoding, such as cp1252. [default: from the bounds, or UTF-8]", TABLES
    ),
}
# of a command that reads a table
TABLE_OPTIONS: Mapping[str, Option] = {
    "target": Option(str, "For a table: the column to predict."),
    "bounds": Option(Path, "For a table: TOML file of public facts; see taciturn bounds."),
    "agent_column": Option(str, "The column that names the agent of each row.", TABLES),
    "person_column": Option(
        str, "The column that names the person of each row; with --rows-per-person.", TABLES
    ),
    "test": Option(Path, "A file of test records, which are public.", TABLES),
    "leave_out": Option(
        bool,
        "Leave rows without a target out of every answer. [default: refuse them]",
        TABLES,
    ),
    **FORM_OPTIONS,
}


def grouped(text: str, group: str | None = None) -> Any:
    """Return the declaration of a flag or value in a panel of the help page."""
    return typer.Option(help=text, rich_help_panel=group)


Json = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object and nothing else.", rich_help_panel=OUTPUT),
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace an earlier file or report.", rich_help_panel=OUTPUT)
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.", rich_help_panel=OUTPUT)]
Seed = Annotated[
    int | None, typer.Option(help="Seed of the noise; the run is then a reproduction, not private.")
]


class GroupedCommand(TyperCommand):
    """A command whose help page has its options in panels, without colours or frames."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then a list of options for each panel."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
                group = getattr(parameter, "rich_help_panel", None) or kind
                panels.setdefault(group, []).append(record)
        first = [name for name in ("Arguments", "Options") if name in panels]
        for name in dict.fromkeys((*first, *panels)):
            with formatter.section(name):
                formatter.write_dl(panels[name])


def takes(options: Mapping[str, tuple[Any, ...]]) -> Callable[[F], F]:
    """Return a decorator that adds options to a command, which receives them by name."""
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                one.kind | None,
                typer.Option(
                    help=one.help,
                    parser=path if one.kind is Path else None,
                    rich_help_panel=one.group,
                ),
            ],
        )
        for name, one in ((name, Option(*values)) for name, values in options.items())
    ]

    def decorated(command: F) -> F:
        signature = inspect.signature(command, eval_str=True)
        declared = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        parameters = [*declared[:1], *added, *declared[1:]]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        return command

    return decorated
