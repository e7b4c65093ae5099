"""Observers: what they see, and what the guarantee takes on trust."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias, final

from tacit import checks
from tacit.errors import InputError


@final
@dataclass(frozen=True)
class Messages:
    """Every link may be read: each answer is protected by its own noise alone.

    `trust` says in words what the guarantee takes on trust.
    """

    name: ClassVar[str] = "messages"
    trust: ClassVar[str] = "none: every link may be read"


@final
@dataclass(frozen=True)
class Sum:
    """Secure aggregation: only the sum over all agents leaves the protocol.

    `colluders` agents tell the observer their own noise; 1 covers a curious participant, who
    knows its own.

    Raises
    ------
    InputError
        If `colluders` is not a whole number of 0 or more.
    """

    name: ClassVar[str] = "sum"

    colluders: int = 1

    def __post_init__(self) -> None:
        checks.at_least("colluders", self.colluders, 0)

    @property
    def trust(self) -> str:
        """What the guarantee takes on trust, in words."""
        return (
            "secure aggregation: only the sum over all agents leaves the protocol; every agent "
            f"adds its own noise honestly, and at most {self.colluders} of them tell the observer "
            "theirs (a participant knows its own noise, so colluders=1 covers a curious "
            "participant)"
        )


Observer: TypeAlias = Messages | Sum


def observer_named(name: str) -> Observer:
    """Return the observer called `name`: "messages", or "sum" with one colluder.

    Raises
    ------
    InputError
        If the name is another one.

    Examples
    --------
    >>> observer_named("sum")
    Sum(colluders=1)
    """
    known: tuple[Observer, ...] = (Messages(), Sum())
    for observer in known:
        if observer.name == name:
            return observer
    names = ", ".join(observer.name for observer in known)
    raise InputError(f"observer is {name!r}; it must be one of {names}")
