"""Exceptions and warnings a caller may meet: what was given, what is needed, what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class TaciturnError(Exception):
    """Base of every error raised on purpose by this library."""


class InputError(TaciturnError, ValueError):
    """Something the caller gave cannot be used; the message names the fix."""


class DataError(InputError):
    """A data set is missing, truncated, or not the file that was pinned."""


class AccountError(InputError):
    """An account does not allow what was asked of it; nothing was charged and no record read."""


class MissingPackageError(TaciturnError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


class PrivacyError(TaciturnError):
    """A law that privacy rests on was broken; nothing may be released."""


class PrivacyWarning(UserWarning):
    """A guarantee protects less than its epsilon suggests; the message says why."""


class PublicFactsWarning(PrivacyWarning):
    """A certificate is conditional: what it takes for public was read off the private records."""


class UtilityWarning(UserWarning):
    """A model is expected to be of no use at its budget; the message says what helps."""


class ProcessLostError(TaciturnError):
    """Another process of a run ended, or cannot be reached; this one releases nothing further."""


class SolverError(TaciturnError):
    """A numerical method did not reach the accuracy that it promises; no result is given."""


def reason(error: BaseException) -> str:
    """Return what may be said of an error: the text of one of this library, else its kind alone.

    Messages of other libraries quote cells.

    Examples
    --------
    >>> reason(InputError("give a number")), reason(ValueError("'secret' is no number"))
    ('give a number', 'ValueError')
    """
    return str(error) if isinstance(error, TaciturnError) else type(error).__name__


def no_bounds(table: str, target: str) -> str:
    """Return what is told where nobody says which ranges of a table are public."""
    return (
        "no bounds file is given: how much noise a record needs must follow from public ranges "
        f"and lists, never from the records; taciturn bounds {table} --target {target} > "
        "bounds.toml "
        "prints one to start from, then pass --bounds bounds.toml"
    )


def install_with(part: str) -> str:
    """Return the command that installs a part of this repository, a folder with its extra if any.

    It names the clone, since no package index has the parts yet.

    Examples
    --------
    >>> install_with("power")
    "in a clone of this repository: pip install -e './power'"
    """
    return f"in a clone of this repository: pip install -e './{part}'"


def told_anew(
    work: Callable[[], T],
    kinds: type[Exception] | tuple[type[Exception], ...],
    tell: Callable[[Exception], Exception],
) -> T:
    """Return `work()`; of an error of one of the `kinds` only what `tell` makes of it is raised.

    Messages of other libraries quote cells, and an error that is chained to another one shows it
    in the traceback. What is raised here has neither cause nor context.

    Examples
    --------
    >>> told_anew(lambda: float("7.5"), ValueError, lambda error: InputError("give a number"))
    7.5
    """
    try:
        return work()
    except kinds as error:
        told = tell(error)
    raise told  # after the handler, so that the error told of is not its context
