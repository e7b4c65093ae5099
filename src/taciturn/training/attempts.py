"""Steps after a release, of which any may fail: what was released stays."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from taciturn.errors import reason

T = TypeVar("T")


@dataclass(frozen=True)
class Attempts:
    """Steps that are tried one after the other, and a line for each that failed.

    Attributes
    ----------
    report
        Called with each line as it comes; None for nobody.
    failures
        The lines of steps that read no private record but through the door, for the report.
    private
        The lines of other steps: that they failed may follow from records, without noise.
    """

    report: Callable[[str], None] | None = None
    failures: list[str] = field(default_factory=list)
    private: list[str] = field(default_factory=list)

    def attempt(
        self, what: str, step: Callable[[], T], otherwise: T, *, private: bool = False
    ) -> T:
        """Return what a step returns, or `otherwise` if it raises; an interrupt passes."""
        try:
            return step()
        except Exception as error:
            line = f"{what} failed: {reason(error)}. The model and its certificate stand"
        (self.private if private else self.failures).append(line)
        if self.report is not None:
            with suppress(Exception):  # that nobody could be told loses nothing, either
                self.report(line)
        return otherwise
