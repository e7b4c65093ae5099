"""The entry point: one application; every failure is one line and an exit code."""

from __future__ import annotations

import gc
import hashlib
import importlib
import os
import platform
import stat
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

import taciturn
from taciturn.cli.console import (
    BAD_INPUT,
    BROKEN_LAW,
    INTERRUPTED,
    GroupedCommand,
    error_line,
    leave_if_busy,
    open_streams,
)
from taciturn.errors import PrivacyError, TaciturnError

FOLDER = "TACITURN_PROGRAMS_DIR"
_SETTINGS = ("JAX_COMPILATION_CACHE", "JAX_PERSISTENT_CACHE")
_MONTH, _MOST_BYTES = 30 * 24 * 3600.0, 2**28


def keep_programs() -> None:
    """Point JAX, before it is imported, to a cache of compiled programs.

    TACITURN_PROGRAMS_DIR names another folder. There is no cache if it is empty, if the folder
    cannot be made, has another owner or is writable by others, or if a cache of JAX is set.
    """
    theirs = any(name.startswith(_SETTINGS) for name in os.environ)
    if "jax" in sys.modules or theirs or os.environ.get(FOLDER) == "":
        return
    with suppress(OSError, RuntimeError):  # also where nobody has a home
        os.environ |= {
            "JAX_COMPILATION_CACHE_DIR": str(_folder()),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
            "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",  # or names depend on the folder's
        }
        warnings.filterwarnings("ignore", message="Error (read|writ)ing persistent compilation")


def _folder() -> Path:
    """Return the cache folder for this kind of processor, created if missing."""
    mac = sys.platform == "darwin"
    cache = None if mac else os.environ.get("XDG_CACHE_HOME")
    usual = "Library/Caches" if mac else ".cache"  # of the home, if there is one
    place = Path(os.environ.get(FOLDER) or Path(cache or Path.home() / usual, "taciturn/programs"))
    # the processor is part of the name: a program may not run on another, and JAX names do not say
    features = f"{platform.machine()} {platform.processor()}"
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features += next((line for line in lines if line.startswith(("flags", "Features"))), "")
    kept = place / f"taciturn-programs-{hashlib.sha256(features.encode()).hexdigest()[:16]}"
    place.parent.mkdir(parents=True, exist_ok=True)
    for folder in (place, kept):
        folder.mkdir(mode=0o700, exist_ok=True)  # whatever the umask permits
        facts = folder.stat()
        others = stat.S_IWGRP | stat.S_IWOTH
        if hasattr(os, "getuid") and (facts.st_uid != os.getuid() or facts.st_mode & others):
            raise PermissionError(folder)
    files = [(file, file.lstat()) for file in kept.iterdir()]
    full = sum(facts.st_size for _, facts in files) > _MOST_BYTES
    for file, facts in files:
        if full or time.time() - facts.st_mtime > _MONTH:
            file.unlink(missing_ok=True)
    return kept


ENTRY_POINTS = "taciturn.commands"


@dataclass(frozen=True)
class Command:
    """A command, with the first line of its help.

    `function` is "module:function", imported when the command is called; its parameters are the
    command's arguments and options. A `typer.Typer` in its place has subcommands.
    """

    name: str
    summary: str
    function: str

    def load(self) -> Callable[..., Any] | typer.Typer:
        """Return the function, imported with the garbage collector off.

        Modules stay until the process ends, so collection finds nothing, in a sixth of the time.
        """
        module, _, name = self.function.partition(":")
        enabled = gc.isenabled()
        gc.disable()
        try:
            loaded: Callable[..., Any] | typer.Typer = getattr(
                importlib.import_module(module), name
            )
        finally:
            if enabled:
                if not gc.get_freeze_count():  # once a process
                    gc.freeze()
                gc.enable()
        return loaded


_SUMMARIES = {
    "plan": "Predict noise and accuracy from public facts; no record is read.",
    "train": "Train a model on a data set or a table within a total privacy budget.",
    "regress": "Estimate a regression, with standard errors, within a total privacy budget.",
    "count": "Count records in tables and survival curves within a total privacy budget.",
    "tune": "Train several candidates and choose one on held-out records, within one budget.",
    "bounds": "Print a bounds file filled in from a table: edit it and pass it to taciturn train.",
    "predict": "Predict the target of every row, as CSV on standard output.",
    "show": "Show a model, certificate or report, with its guarantee.",
    "budget": "Keep accounts: one privacy budget for all runs on a body of records.",
    "cost": "Compute the total epsilon from the noise multiplier, or the multiplier from epsilon.",
    "audit": "Attack a method, as planned or with a fault, on data that saturate its bound.",
}
BUILT_IN = tuple(
    Command(name, summary, f"taciturn.cli.{name}:{name}") for name, summary in _SUMMARIES.items()
)

# for renamed commands, and for those of packages that are not installed
_CLONE = "it comes with taciturn-{0}: in a clone, pip install -e {0}"
_HINTS: Mapping[str, str] = {
    "account": "it is called cost now, and taciturn budget keeps accounts of what is spent",
    **dict.fromkeys(("claims", "reproduce", "attack"), _CLONE.format("papers")),
    **dict.fromkeys(("study", "site"), _CLONE.format("federation")),
    "grid": _CLONE.format("power"),
    "verify": _CLONE.format("verify"),
}


def commands() -> dict[str, Command]:
    """Return all commands by name: the built-in ones, then those of installed packages."""
    added = [command for point in entry_points(group=ENTRY_POINTS) for command in point.load()]
    return {command.name: command for command in (*BUILT_IN, *added)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done; 2: bad input; 3: a law on which privacy rests was violated, and nothing was released;
    130: interrupted. Every failure is one line on standard error.
    """
    open_streams()
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    known = commands()
    try:
        keep_programs()
        code = application(known, given[0])(given, prog_name="taciturn", standalone_mode=False)
    except (TyperException, TaciturnError, MemoryError, OSError) as error:
        error_line(_in_words(error, known, given[0]))
        code = BROKEN_LAW if isinstance(error, PrivacyError) else BAD_INPUT
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        error_line("interrupted; each file of a report is complete or absent", kind="")
    if code:
        leave_if_busy(code)
    return int(code or 0)


def application(known: Mapping[str, Command], name: str) -> typer.Typer:
    """Return the application with one command loaded, and only the summaries of the others.

    Importing all of them would take seconds.
    """
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        help=_top.__doc__,
        rich_markup_mode=None,
    )
    app.callback()(_top)
    for other, command in known.items():
        loaded = command.load() if other == name else lambda: None
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=name, help=command.summary)
        else:
            short = None if other == name else command.summary
            app.command(other, cls=GroupedCommand, help=short)(loaded)
    return app


def _show_version(requested: bool) -> bool:
    if requested:
        typer.echo(f"taciturn {taciturn.__version__}")
        raise typer.Exit
    return requested


def _top(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Differentially private distributed convex optimisation."""


def _in_words(error: BaseException, known: Mapping[str, Command], name: str) -> str:
    """Return an error as one line for the user of a command."""
    if isinstance(error, TyperException):
        hint = _HINTS.get(name, "see taciturn --help")
        hint = f"see taciturn {name} --help" if name in known else hint
        return f"{error.format_message().rstrip('.')}; {hint}"
    if isinstance(error, MemoryError):
        return "out of memory; ask for fewer rounds, runs or agents"
    if isinstance(error, OSError):  # most often a full disk or standard output
        where = f" ({error.filename})" if error.filename else ""
        return f"the system could not read or write{where}: {error.strerror or error}"
    return str(error)
