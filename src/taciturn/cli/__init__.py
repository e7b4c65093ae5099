"""The command line, `taciturn`: one module for each of its commands.

A package adds commands by a sequence of `Command` in the entry point group `taciturn.commands`, and
writes them with the helpers here. Helpers that need the rest of the library are imported when they
are first used, so that --help is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from taciturn.cli.console import (
    Option,
    emit,
    error_line,
    first_given,
    interruptible,
    one_of,
    path,
    printable,
    read_text,
    say,
    table,
    takes,
)  # fmt: skip
from taciturn.cli.main import Command, main

if TYPE_CHECKING:
    from taciturn.cli.accounts import ACCOUNT_OPTIONS, account_given, confirmed
    from taciturn.cli.options import all_options, methods_with, run_options
    from taciturn.cli.regress import REGRESSION_OPTIONS, regression_given

__all__ = [
    "ACCOUNT_OPTIONS", "REGRESSION_OPTIONS", "Command", "Option", "account_given", "all_options",
    "confirmed", "emit", "error_line", "first_given", "interruptible", "main", "methods_with",
    "one_of", "path", "printable", "read_text", "regression_given", "run_options", "say", "table",
    "takes",
]  # fmt: skip
_MODULES = {
    **dict.fromkeys(("all_options", "methods_with", "run_options"), "options"),
    **dict.fromkeys(("REGRESSION_OPTIONS", "regression_given"), "regress"),
    **dict.fromkeys(("ACCOUNT_OPTIONS", "account_given", "confirmed"), "accounts"),
}


def __getattr__(name: str) -> Any:
    """Return a helper of a module that is imported now."""
    if name not in _MODULES:
        raise AttributeError(f"taciturn.cli has no {name!r}")
    return getattr(importlib.import_module(f"taciturn.cli.{_MODULES[name]}"), name)
