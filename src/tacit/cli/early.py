"""Mistakes that the command line alone shows, told before anything heavy is imported.

What a command imports takes seconds. It makes every check here again, with the same words: these
are only quicker, and what they do not understand they let pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tacit.checks import readable
from tacit.errors import InputError, no_bounds

_TRAINS, _READS_MODEL = ("train", "tune"), ("predict", "show")
_TABLES = (".csv", ".parquet")


def check_early(arguments: Sequence[str]) -> None:
    """Raise `InputError` for a file that is named and not there, or bounds that nobody gives."""
    if len(arguments) < 2 or "--help" in arguments:
        return
    command, first = arguments[0], arguments[1]
    if command in _READS_MODEL and first.isprintable() and first[:1] not in ("", "-"):
        readable(Path(first), f"the model {first}")
    if command in _TRAINS and _value("--proposal", arguments) is None:
        _check_bounds(first, _value("--bounds", arguments), _value("--target", arguments))


def _check_bounds(table: str, bounds: str | None, target: str | None) -> None:
    if bounds and bounds.isprintable():
        readable(Path(bounds), f"the bounds file {bounds}")
    file = Path(table)
    if bounds is None and target and file.suffix.lower() in _TABLES and file.is_file():
        raise InputError(no_bounds(table, target))


def _value(option: str, arguments: Sequence[str]) -> str | None:
    """Return what is given to an option, as `--option value` or `--option=value`."""
    for place, argument in enumerate(arguments):
        if argument == option and place + 1 < len(arguments):
            return arguments[place + 1]
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
    return None
