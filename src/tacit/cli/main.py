"""The entry point: one application, and every failure as one line with an exit code."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from typer.exceptions import TyperException

import tacit
from tacit.cli import progress
from tacit.cli.commands import ELSEWHERE, Command, commands
from tacit.cli.console import error_line
from tacit.errors import PrivacyError, TacitError

BAD_INPUT, BROKEN_LAW, INTERRUPTED = 2, 3, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done; 2: bad input; 3: a law that privacy rests on was broken, nothing was released;
    130: interrupted. Every failure is one line on standard error.
    """
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    known = commands()
    try:
        code = application(known, given[0])(given, prog_name="tacit", standalone_mode=False)
    except TyperException as error:
        error_line(f"{error.format_message().rstrip('.')}{_hint(known, given[0])}")
        return BAD_INPUT
    except TacitError as error:
        error_line(str(error))
        return BROKEN_LAW if isinstance(error, PrivacyError) else BAD_INPUT
    except MemoryError:
        error_line("this needs more memory than there is; ask for fewer rounds, runs or agents")
        return BAD_INPUT
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        error_line("interrupted; nothing was written", kind="")
        progress.leave_if_busy(INTERRUPTED)
    return int(code or 0)


def application(known: Mapping[str, Command], name: str) -> typer.Typer:
    """Return the application with one command loaded and only the help of the others.

    Importing all of them would take seconds.
    """
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        help=_DESCRIPTION,
        rich_markup_mode=None,
    )
    app.callback()(_top)
    for other, command in known.items():
        if other == name:
            app.command(name)(command.load())
        else:
            app.command(other, help=command.summary)(_not_loaded)
    return app


def _not_loaded() -> None:
    """Stand for a command that is not loaded."""


_DESCRIPTION = "Differentially private distributed convex optimisation."


def _show_version(requested: bool) -> bool:
    if requested:
        typer.echo(f"tacit {tacit.__version__}")
        raise typer.Exit
    return requested


def _top(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Differentially private distributed convex optimisation."""


def _hint(known: Mapping[str, Command], name: str) -> str:
    if name in ELSEWHERE and name not in known:
        return f"; it comes with {ELSEWHERE[name]}: pip install {ELSEWHERE[name]}"
    return f"; see tacit {name} --help" if name in known else "; see tacit --help"
