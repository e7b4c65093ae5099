"""The entry point: one application, and every failure as one line with an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.exceptions import TyperException

import tacit
from tacit.cli import interrupt
from tacit.cli.account import account
from tacit.cli.attack import attack
from tacit.cli.audit import audit
from tacit.cli.bounds import bounds
from tacit.cli.claims import claims
from tacit.cli.grid import grid
from tacit.cli.output import error_line
from tacit.cli.plan import plan
from tacit.cli.predict import predict
from tacit.cli.reproduce import reproduce
from tacit.cli.show import show
from tacit.cli.train import train
from tacit.errors import PrivacyError, TacitError

BAD_INPUT, BROKEN_LAW, INTERRUPTED = 2, 3, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done; 2: bad input; 3: a law that privacy rests on was broken, nothing was released;
    130: interrupted. Every failure is one line on standard error.
    """
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        code = application()(given, prog_name="tacit", standalone_mode=False)
    except TyperException as error:
        error_line(f"{error.format_message().rstrip('.')}; see {_help(given)}")
        return BAD_INPUT
    except TacitError as error:
        error_line(str(error))
        return BROKEN_LAW if isinstance(error, PrivacyError) else BAD_INPUT
    except MemoryError:
        error_line("this needs more memory than there is; ask for fewer rounds, runs or agents")
        return BAD_INPUT
    if code == INTERRUPTED:
        error_line("interrupted; nothing was written", kind="")
        interrupt.leave_if_busy(INTERRUPTED)
    return int(code or 0)


def application() -> typer.Typer:
    """Return the application with its commands."""
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        help=_DESCRIPTION,
        rich_markup_mode=None,
    )
    app.callback()(_top)
    for command in _COMMANDS:
        app.command()(command)
    return app


_COMMANDS = (plan, train, bounds, predict, show, grid, account, audit, attack, claims, reproduce)
_DESCRIPTION = "Differentially private distributed convex optimisation."


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tacit {tacit.__version__}")
        raise typer.Exit


def _top(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Differentially private distributed convex optimisation."""


def _help(given: Sequence[str]) -> str:
    names = [command.__name__ for command in _COMMANDS]
    return f"tacit {given[0]} --help" if given[0] in names else "tacit --help"
