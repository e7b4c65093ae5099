"""The command line, `taciturn`: one module for each of its commands.

A package adds commands by a sequence of `Command` in the entry point group `taciturn.commands`, and
writes them with the helpers here. Helpers that need the rest of the library are imported when they
are first used, so that --help is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from taciturn.cli.console import (
    emit,
    error_line,
    interruptible,
    one_of,
    path,
    printable,
    read_text,
    table,
    takes,
)
from taciturn.cli.main import Command, main

if TYPE_CHECKING:
    from taciturn.cli.accounts import ACCOUNT_OPTIONS as ACCOUNT_OPTIONS
    from taciturn.cli.accounts import account_given as account_given
    from taciturn.cli.accounts import begun as begun
    from taciturn.cli.accounts import confirmed as confirmed
    from taciturn.cli.options import all_options as all_options
    from taciturn.cli.options import methods_with as methods_with
    from taciturn.cli.options import rounds_help as rounds_help
    from taciturn.cli.options import run_options as run_options

_MODULES = {
    "accounts": ("ACCOUNT_OPTIONS", "account_given", "begun", "confirmed"),
    "options": ("all_options", "methods_with", "rounds_help", "run_options"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [  # noqa: PLE0604 - the table above is a part of the list
    "Command",
    "emit",
    "error_line",
    "interruptible",
    "main",
    "one_of",
    "path",
    "printable",
    "read_text",
    "table",
    "takes",
    *_MODULE_OF,
]


def __getattr__(name: str) -> Any:
    """Return a helper of a module that is imported now."""
    if name not in _MODULE_OF:
        raise AttributeError(f"taciturn.cli has no {name!r}")
    return getattr(importlib.import_module(f"taciturn.cli.{_MODULE_OF[name]}"), name)
