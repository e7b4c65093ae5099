"""The command line, `tacit`: one module for each of its commands."""

from tacit.cli.main import main

__all__ = ["main"]
