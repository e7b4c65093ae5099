"""The command line: `tacit train`, `account`, `audit`, `claims`."""

from tacit.cli.main import main

__all__ = ["main"]
