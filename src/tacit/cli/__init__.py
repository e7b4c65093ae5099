"""The command line, `tacit`: one module for each of its commands.

A package that adds a command needs `Command` and the helpers here.
"""

from tacit.cli.console import emit, interruptible, one_of, path, table
from tacit.cli.main import Command, main

__all__ = ["Command", "emit", "interruptible", "main", "one_of", "path", "table"]
