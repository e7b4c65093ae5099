"""The terms of a guarantee: neighbouring relation, observer and budget; and sensitivity bounds."""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, final, get_args

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from taciturn import checks
from taciturn.errors import InputError
from taciturn.typing import HostArray

Norm: TypeAlias = Literal["l1", "l2"]
Unit: TypeAlias = Literal["record", "agent", "person"]
# the records that change together, by unit
_WHOLE = {"agent": "records of one agent", "person": "rows of one person"}


@dataclass(frozen=True)
class Relation(abc.ABC):
    """Which pairs of data sets are neighbours; `name` is used in certificates."""

    name: ClassVar[str]

    @abc.abstractmethod
    def describe(self, unit: Unit) -> str:
        """Return the sentences of a certificate about neighbouring data sets."""


@final
@dataclass(frozen=True)
class ReplaceOne(Relation):
    """One unit is replaced by any other that keeps the public bounds; counts stay the same."""

    name: ClassVar[str] = "replace_one"

    @override
    def describe(self, unit: Unit) -> str:
        if unit == "record":
            return (
                "One record of one agent is replaced by any other record within the public "
                "bounds; every record count stays as it is."
            )
        if unit == "person":
            return (
                "All rows of one person are replaced by any others within the public bounds, more "
                "or fewer; the number of persons of every agent stays as it is."
            )
        return (
            "All records of one agent are replaced by any others within the public bounds; "
            "every record count stays as it is."
        )


@final
@dataclass(frozen=True)
class ZeroOut(Relation):
    """Add or remove, with public counts: a unit's contribution is set to zero; its count stays."""

    name: ClassVar[str] = "zero_out"

    @override
    def describe(self, unit: Unit) -> str:
        what = "one record" if unit == "record" else f"all {_WHOLE[unit]}"
        counted = "number of persons" if unit == "person" else "record count"
        return (
            f"The contribution of {what} is set to zero, or a zero contribution is filled in; "
            f"every {counted} stays public and as it is."
        )


@final
@dataclass(frozen=True)
class BoundedChange(Relation):
    """One record moves by at most `beta` in Euclidean norm (in the units of the record).

    All of the record may move, features included (`TargetChange` is for private targets). `record`
    names a record in the certificate.
    """

    name: ClassVar[str] = "bounded_change"

    beta: float
    record: str = "record"

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", checks.positive("beta", self.beta))

    @override
    def describe(self, unit: Unit) -> str:
        whose = "person" if unit == "person" else "agent"
        what = f"{'One' if unit == 'record' else 'Every'} {self.record} of one {whose}"
        return f"{what} moves by at most {self.beta:g} in Euclidean norm; counts stay as they are."


@final
@dataclass(frozen=True)
class TargetChange(Relation):
    """The target of one record moves by at most `beta` (in its units); features are public.

    `target` describes the target in the certificate.
    """

    name: ClassVar[str] = "target_change"

    beta: float
    target: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", checks.positive("beta", self.beta))

    @override
    def describe(self, unit: Unit) -> str:
        named = f" ({self.target})" if self.target else ""
        what = f"The target of one record of one agent{named} moves by at most {self.beta:g}"
        if unit != "record":
            what = f"The targets of all {_WHOLE[unit]}{named} move by at most {self.beta:g} each"
        return f"{what}; features are public and not protected, and counts stay as they are."


@dataclass(frozen=True)
class Adjacency:
    r"""A relation and its unit: what neighbouring data sets differ in.

    **Guarantee.** The number of places is public, so data sets that differ in one person differ in
    at most K places of one agent, or of each of M: a place is replaced, filled or emptied. Answers
    do not depend on the order of records, so an answer changes by at most what K records can change
    together (`changed`). If a person is at several agents, all of their answers change: under
    `Messages` their noises are independent and :math:`\mu^2 = \sum_i \mu_i^2`; under `Sum` the
    changes add up, :math:`\sum_i \Delta_i / S` (`Ledger.mu_across`).

    - `relation`: Which data sets are neighbours.
    - `unit`: A record, all records of an agent, or all rows of a person.
    - `rows_per_person`: K, for the unit person only: the public number of places that a person has
      at an agent. Places without a row are masked; of more rows the agent takes K, by a rule on the
      rows of that person alone (`taciturn.kernel.records.Persons`).
    - `agents_per_person`: M, for the unit person only: the most agents with rows of one person.
    """

    relation: Relation
    unit: Unit
    rows_per_person: int | None = None
    agents_per_person: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.relation, Relation):
            raise InputError(
                f"relation is {self.relation!r}; it must be a Relation, for example ReplaceOne()"
            )
        if self.unit not in get_args(Unit):
            raise InputError(f"unit is {self.unit!r}; it must be 'record', 'agent' or 'person'")
        if self.unit != "person":
            if self.rows_per_person is not None or self.agents_per_person != 1:
                raise InputError(
                    f"rows and agents of a person are given for the unit {self.unit}; leave them "
                    "out, or use the unit person"
                )
            return
        if self.rows_per_person is None:
            raise InputError(
                "the most rows per person, which determines the noise, is not given; give "
                "rows_per_person"
            )
        for name in ("rows_per_person", "agents_per_person"):
            object.__setattr__(self, name, checks.at_least(name, getattr(self, name), 1))

    def describe(self) -> str:
        """Return the sentences of a certificate about neighbouring data sets."""
        text = self.relation.describe(self.unit)
        if self.unit != "person":
            return text
        where = "at one agent"
        if self.agents_per_person > 1:
            where = f"at each of up to {self.agents_per_person} agents"
        return (
            f"{text} A person has {self.rows_per_person} places {where}: places without a row "
            "count as empty, and further rows are left out."
        )

    def changed(self, counts: tuple[int, ...]) -> Float[HostArray, " A"]:
        """Return how many of each agent's m_i records change together, at most."""
        sizes = np.asarray(counts, dtype=np.float64)
        most = {"record": 1, "agent": np.inf, "person": self.rows_per_person}[self.unit]
        return np.minimum(sizes, np.float64(most))


@final
@dataclass(frozen=True)
class Messages:
    """Every link may be read, and each answer is protected by its own noise alone.

    `trust` states what the guarantee takes on trust.
    """

    name: ClassVar[str] = "messages"
    trust: ClassVar[str] = "none: every link may be read"


@final
@dataclass(frozen=True)
class Sum:
    """Secure aggregation: only the sum over all agents leaves the protocol.

    `colluders` agents may reveal their noise to the observer; 1 covers a curious participant.
    """

    name: ClassVar[str] = "sum"

    colluders: int = 1

    def __post_init__(self) -> None:
        checks.at_least("colluders", self.colluders, 0)

    @property
    def trust(self) -> str:
        """What the guarantee takes on trust."""
        return (
            "secure aggregation: only the sum over all agents leaves the protocol; every agent "
            f"adds its own noise honestly, and at most {self.colluders} of them reveal it to the "
            "observer (a participant knows its own noise, so colluders=1 covers a curious "
            "participant)"
        )


Observer: TypeAlias = Messages | Sum


MOST_EPSILON = 1e6


@final
@dataclass(frozen=True)
class Terms:
    """A total budget, a neighbouring relation and an observer.

    `epsilon`, `delta`: the budget of the whole run; an infinite `epsilon` means no noise, and a
    certificate that states no privacy. `adjacency` and `observer` default to the strongest
    protection of a record: it is replaced by any other, and every message is read.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency(ReplaceOne(), "record")
    observer: Observer = Messages()

    def __post_init__(self) -> None:
        checks.positive("epsilon", self.epsilon, allow_infinity=True)
        if MOST_EPSILON < self.epsilon < math.inf:
            raise InputError(
                f"epsilon {self.epsilon:g} protects nothing; give inf for a run without noise"
            )
        checks.delta(self.delta)
        if not isinstance(self.adjacency, Adjacency):
            raise InputError(
                f"adjacency is {self.adjacency!r}; pass an Adjacency, for example "
                'Adjacency(ReplaceOne(), "record")'
            )
        if not isinstance(self.observer, Messages | Sum):
            raise InputError(f"observer is {self.observer!r}; pass Messages() or Sum(colluders=1)")


@dataclass(frozen=True, eq=False)
class SensitivityBound:
    """A bound Delta on the change of every answer between neighbouring data sets.

    - `value`: Shape (A, T, E), float64, in the units of the answer; infinity means "not bounded".
    - `norm`: The norm of the change.
    - `adjacency`: The relation and unit for which it holds.
    - `derivation`: Its derivation, in words and formulas.
    """

    value: Float[HostArray, "A T E"]
    norm: Norm
    adjacency: Adjacency
    derivation: str

    def __post_init__(self) -> None:
        value = np.array(self.value, dtype=np.float64)
        if value.ndim != 3:
            raise InputError(
                f"a sensitivity bound has shape {value.shape}; it must be (agents, rounds, "
                "questions)"
            )
        if not bool(np.all(value >= 0)):
            raise InputError("a sensitivity bound is NaN or negative; give 0 or more, or infinity")
        if self.norm not in get_args(Norm):
            raise InputError(f"norm is {self.norm!r}; it must be 'l1' or 'l2'")
        value.setflags(write=False)
        object.__setattr__(self, "value", value)
