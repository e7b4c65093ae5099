"""What "neighbouring" means: the relation between data sets, and the unit that is protected."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, final, get_args

from tacit import checks
from tacit.errors import InputError

Unit: TypeAlias = Literal["record", "agent"]


@dataclass(frozen=True)
class Relation(abc.ABC):
    """Which pairs of data sets are neighbours; certificates call it by its `name`."""

    name: ClassVar[str]

    @abc.abstractmethod
    def describe(self, unit: Unit) -> str:
        """Return one plain sentence: what neighbouring data sets differ in."""


@final
@dataclass(frozen=True)
class ReplaceOne(Relation):
    """One unit is replaced by any other that keeps the public bounds; counts stay the same.

    Examples
    --------
    >>> ReplaceOne().describe("record")
    'One record of one agent is replaced by any other record within the public bounds; ...'
    """

    name: ClassVar[str] = "replace_one"

    def describe(self, unit: Unit) -> str:
        """Return what neighbouring means, as one sentence."""
        if unit == "record":
            return (
                "One record of one agent is replaced by any other record within the public "
                "bounds; every record count stays as it is."
            )
        return (
            "All records of one agent are replaced by any others within the public bounds; "
            "every record count stays as it is."
        )


@final
@dataclass(frozen=True)
class ZeroOut(Relation):
    """Add or remove with public counts: a unit's contribution is set to zero, the count stays."""

    name: ClassVar[str] = "zero_out"

    def describe(self, unit: Unit) -> str:
        """Return what neighbouring means, as one sentence."""
        what = "one record" if unit == "record" else "all records of one agent"
        return (
            f"The contribution of {what} is set to zero, or a zero contribution is filled in; "
            "every record count stays public and as it is."
        )


@final
@dataclass(frozen=True)
class BoundedChange(Relation):
    """One record moves by at most `beta` in Euclidean norm (in the units of the record).

    `record` says in a few words what a record is, for the certificate; what of it is private
    must fit the question (`tacit.oracles.Targets` and its kin: the target, features are public).
    """

    name: ClassVar[str] = "bounded_change"

    beta: float
    record: str = "record"

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", checks.positive("beta", self.beta))

    def describe(self, unit: Unit) -> str:
        """Return what neighbouring means, as one sentence."""
        what = f"{'One' if unit == 'record' else 'Every'} {self.record} of one agent"
        return f"{what} moves by at most {self.beta:g} in Euclidean norm; counts stay as they are."


def relation_named(name: str) -> Relation:
    """Return the relation called `name`: "replace_one" or "zero_out".

    Raises
    ------
    InputError
        If the name is another one. `BoundedChange` needs its beta: construct it directly.

    Examples
    --------
    >>> relation_named("zero_out")
    ZeroOut()
    """
    known: tuple[Relation, ...] = (ReplaceOne(), ZeroOut())
    for relation in known:
        if relation.name == name:
            return relation
    names = ", ".join(relation.name for relation in known)
    raise InputError(
        f"relation is {name!r}; it must be one of {names} (or construct BoundedChange(beta))"
    )


@dataclass(frozen=True)
class Adjacency:
    """A relation together with the unit it speaks of.

    Raises
    ------
    InputError
        If the relation is no `Relation`, or the unit is neither "record" nor "agent".
    """

    relation: Relation
    unit: Unit

    def __post_init__(self) -> None:
        if not isinstance(self.relation, Relation):
            raise InputError(
                f"relation is {self.relation!r}; it must be a Relation, for example ReplaceOne()"
            )
        if self.unit not in get_args(Unit):
            raise InputError(f"unit is {self.unit!r}; it must be 'record' or 'agent'")

    def describe(self) -> str:
        """Return one plain sentence: what neighbouring data sets differ in."""
        return self.relation.describe(self.unit)
