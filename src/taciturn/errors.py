"""Exceptions and warnings: their messages state what was given, what is needed and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class TaciturnError(Exception):
    """Base of every error of this library."""


class InputError(TaciturnError, ValueError):
    """An argument or input cannot be used; the message names the fix."""


class DataError(InputError):
    """A data set is missing, truncated, or not the file that was pinned."""


class AccountError(InputError):
    """An account does not allow a run; nothing was charged and no record read."""


class MissingPackageError(TaciturnError, ImportError):
    """An optional package is not installed; the message names the extra that installs it."""


class PrivacyError(TaciturnError):
    """An assumption of the privacy guarantee is violated; nothing may be released."""


class PrivacyWarning(UserWarning):
    """A guarantee protects less than its epsilon suggests, for the reason in the message."""


class PublicFactsWarning(PrivacyWarning):
    """A certificate is conditional: facts taken as public were computed from private records."""


class UtilityWarning(UserWarning):
    """A model is expected to be useless at its budget; the message says what helps."""


class ProcessLostError(TaciturnError):
    """Another process of a run ended or cannot be reached; this one releases nothing more."""


class SolverError(TaciturnError):
    """A numerical method did not reach its accuracy; there is no result."""


def reason(error: BaseException) -> str:
    """Return the printable reason of an error: its text if it is this library's, else its type.

    Messages of other libraries may quote cells of private records.

    Examples
    --------
    >>> reason(InputError("give a number")), reason(ValueError("'secret' is no number"))
    ('give a number', 'ValueError')
    """
    return str(error) if isinstance(error, TaciturnError) else type(error).__name__


def missing_bounds_text(table: str, target: str) -> str:
    """Return the error text for a table without a bounds file."""
    return (
        "no bounds file is given: the amount of noise must follow from public ranges "
        f"and lists, never from the records; taciturn bounds {table} --target {target} > "
        "bounds.toml "
        "prints one to start from, then pass --bounds bounds.toml"
    )


def install_command(part: str) -> str:
    """Return the command that installs a part of this repository, a folder with its extra if any.

    It names the clone, since no package index has the parts yet.

    Examples
    --------
    >>> install_command("power")
    "in a clone of this repository: pip install -e './power'"
    """
    return f"in a clone of this repository: pip install -e './{part}'"


def reraise_clean(
    work: Callable[[], T],
    kinds: type[Exception] | tuple[type[Exception], ...],
    tell: Callable[[Exception], Exception],
) -> T:
    """Return `work()`; raise `tell(error)` in place of an error of one of the `kinds`.

    Messages of other libraries quote cells, and a traceback shows chained errors. So the error
    raised here has neither cause nor context.

    Examples
    --------
    >>> reraise_clean(lambda: float("7.5"), ValueError, lambda error: InputError("give a number"))
    7.5
    """
    try:
        return work()
    except kinds as error:
        clean = tell(error)
    raise clean  # outside the handler, so that the original error is not its context
