"""The command line, `tacit`: one module for each of its commands.

A package that adds a command needs `Command` and the helpers here.
"""

from tacit.cli.commands import Command
from tacit.cli.interrupt import interruptible
from tacit.cli.main import main
from tacit.cli.output import emit, one_of, table
from tacit.cli.paths import path

__all__ = ["Command", "emit", "interruptible", "main", "one_of", "path", "table"]
