"""The command line: `tacit train`, `bounds`, `predict`, `show`, `account`, `audit`, `claims`."""

from tacit.cli.main import main

__all__ = ["main"]
