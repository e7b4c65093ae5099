"""The command line, `tacit`: one module for each of its commands.

A package that adds commands names a sequence of `Command` in the entry point group
`tacit.commands`, and writes them with the helpers here. Those that need the rest of the library are
imported when they are first used: a command line that is asked for help imports none of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tacit.cli.console import (
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
from tacit.cli.main import Command, main

if TYPE_CHECKING:
    from tacit.cli.accounts import ACCOUNT_OPTIONS as ACCOUNT_OPTIONS
    from tacit.cli.accounts import account_given as account_given
    from tacit.cli.accounts import begun as begun
    from tacit.cli.accounts import confirmed as confirmed
    from tacit.cli.options import all_options as all_options
    from tacit.cli.options import methods_with as methods_with
    from tacit.cli.options import rounds_help as rounds_help
    from tacit.cli.options import run_options as run_options

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
        raise AttributeError(f"tacit.cli has no {name!r}")
    return getattr(importlib.import_module(f"tacit.cli.{_MODULE_OF[name]}"), name)
