"""The command line, `tacit`: one module for each of its commands.

A package that adds a command needs `Command` and the helpers here.
"""

from tacit.cli.commands import Command
from tacit.cli.console import emit, one_of, path, table
from tacit.cli.main import main
from tacit.cli.progress import interruptible

__all__ = ["Command", "emit", "interruptible", "main", "one_of", "path", "table"]
