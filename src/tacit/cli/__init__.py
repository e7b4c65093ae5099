"""The command line: one file per command, see `tacit --help`."""

from tacit.cli.main import main

__all__ = ["main"]
