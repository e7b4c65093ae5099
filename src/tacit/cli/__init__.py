"""The command line, `tacit`: one module for each of its commands.

A package that adds a command needs `Command` and the helpers here.
"""

from tacit.cli.console import emit, error_line, interruptible, one_of, path, table
from tacit.cli.declaring import takes
from tacit.cli.main import Command, main

__all__ = [
    "Command",
    "emit",
    "error_line",
    "interruptible",
    "main",
    "one_of",
    "path",
    "table",
    "takes",
]
