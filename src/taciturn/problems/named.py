"""Losses, regularisers and constraint sets by name.

An entry names the numbers that follow a name, as in `elastic:W1,W2`, and builds the object from
them. To add a loss, regulariser or set to the library, add a class and an entry here; a user
registers a class (`register`).
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field

from taciturn.documents import Part
from taciturn.errors import InputError
from taciturn.kernel.questions import Loss, Squared, name_of_class
from taciturn.problems.losses import (
    BoundedMultinomial,
    CappedExponential,
    HuberHinge,
    Logistic,
    MarginLoss,
    MultinomialLogistic,
    Poisson,
)
from taciturn.problems.regularisers import L1, L2, ElasticNet, NoRegulariser, Regulariser
from taciturn.problems.responses import (
    CumulativeLogistic,
    DiscreteCloglog,
    DiscreteLogistic,
    Gamma,
    Huber,
    NegativeBinomial,
    PiecewiseExponential,
    SmoothedQuantile,
    Survival,
)
from taciturn.problems.sets import Ball, Box, ConvexSet, Simplex, WholeSpace
from taciturn.typing import Task

MOST = 1e30
T = TypeVar("T")

Name = Annotated[str, Field(max_length=200)]


class Named(Part):
    """A loss, regulariser or constraint: a name with numbers, as in `elastic:1e-3,1e-2`."""

    name: Name
    numbers: tuple[float, ...]

    @classmethod
    def parse(cls, what: str, text: str) -> Named:
        """Return the name and numbers in a text such as `l2:1e-6` or `module:Class:0.5`."""
        name, colon, rest = text.partition(":")
        if cls.is_custom(text):
            attribute, colon, rest = rest.partition(":")
            name = f"{name}:{attribute}"
        try:
            numbers = tuple(float(part) for part in rest.split(",")) if colon else ()
        except ValueError as error:
            raise InputError(
                f"{what} is {text!r}; after the colon come numbers, as in {name}:0.1"
            ) from error
        if not all(math.isfinite(number) for number in numbers):
            raise InputError(f"{what} is {text!r}; its numbers must be finite")
        return cls(name=name, numbers=numbers)

    @staticmethod
    def is_custom(text: str) -> bool:
        """Whether a text names a user's class, `module:Class`."""
        attribute = text.partition(":")[2].partition(":")[0]
        return attribute.isidentifier() and attribute.lower() not in ("inf", "infinity", "nan")

    def __str__(self) -> str:
        numbers = ",".join(repr(number).removesuffix(".0") for number in self.numbers)
        # exponents without a plus sign and leading zeros
        shortest = re.sub(r"e(-?)\+?0*", r"e\1", numbers)
        return f"{self.name}:{shortest}" if self.numbers else self.name


NONE = Named(name="none", numbers=())


@dataclass(frozen=True)
class Entry(Generic[T]):
    """How to build an object from numbers; their names in help texts; for a loss, its task."""

    make: Callable[..., T]
    numbers: tuple[str, ...] = ()
    task: Task = "regression"
    by_classes: bool = False  # whether the number of classes follows the numbers
    more: bool = False  # whether the last name stands for any number of numbers

    def takes(self, count: int) -> bool:
        """Return whether it is built from so many numbers."""
        named = len(self.numbers)
        return count >= named - 1 if self.more else count == named


def _survival(kind: type[Survival]) -> Entry[Loss]:
    def make(longest: float, most: float, *cuts: float) -> Survival:
        return kind(longest, most, cuts)

    return Entry(make, ("LONGEST", "H", "CUTS..."), task="regression", more=True)


_LOSSES: dict[str, Entry[Loss]] = {
    "capped-exponential": Entry(CappedExponential, task="binary"),
    "logistic": Entry(Logistic, task="binary"),
    "hinge": Entry(HuberHinge, ("H",), task="binary"),
    "bounded-multinomial": Entry(BoundedMultinomial, task="multiclass", by_classes=True),
    "multinomial": Entry(MultinomialLogistic, task="multiclass", by_classes=True),
    "squared": Entry(Squared, task="regression"),
    "poisson": Entry(Poisson, ("LOW", "HIGH"), task="regression"),
    "negative-binomial": Entry(NegativeBinomial, ("LOW", "HIGH", "A"), task="regression"),
    "gamma": Entry(Gamma, ("LOW", "HIGH"), task="regression"),
    "huber": Entry(Huber, ("T",), task="regression"),
    "quantile": Entry(SmoothedQuantile, ("T", "H"), task="regression"),
    "cumulative-logistic": Entry(CumulativeLogistic, task="multiclass", by_classes=True),
    "piecewise-exponential": _survival(PiecewiseExponential),
    "discrete-logistic": _survival(DiscreteLogistic),
    "discrete-cloglog": _survival(DiscreteCloglog),
}
_LIKELIHOODS: dict[Task, str] = {
    "binary": "logistic", "multiclass": "multinomial", "regression": "squared",
}  # fmt: skip
_REGULARISERS: dict[str, Entry[Regulariser]] = {
    "none": Entry(NoRegulariser),
    "l1": Entry(L1, ("W",)),
    "l2": Entry(L2, ("W",)),
    "elastic": Entry(ElasticNet, ("W1", "W2")),
}
_CONSTRAINTS: dict[str, Entry[ConvexSet]] = {
    "none": Entry(WholeSpace),
    "box": Entry(lambda bound: Box(-bound, bound), ("B",)),
    "ball": Entry(Ball, ("R",)),
    "simplex": Entry(lambda: Simplex(1.0)),
}
LOSSES: Mapping[str, Entry[Loss]] = MappingProxyType(_LOSSES)
REGULARISERS: Mapping[str, Entry[Regulariser]] = MappingProxyType(_REGULARISERS)
CONSTRAINTS: Mapping[str, Entry[ConvexSet]] = MappingProxyType(_CONSTRAINTS)
_TABLES: tuple[tuple[type, dict[str, Any]], ...] = (
    (Loss, _LOSSES), (Regulariser, _REGULARISERS), (ConvexSet, _CONSTRAINTS),
)  # fmt: skip
_CLASSES = "classes"


def register(kind: type[T]) -> type[T]:
    """Make a user's loss, regulariser or set available as `module:Class`; a decorator.

    The numbers that follow the name, as in `module:Class:0.5`, are its fields without a default. A
    loss with a field `classes`, the last one, is for that many classes; any other `MarginLoss` is
    for two classes, and any other loss for numbers.

    **Guarantee.** A class is found by name only in this process, after its user imported it: no
    module is imported because a proposal names it. Certificates name the class (`custom_classes`).
    """
    table = next((table for base, table in _TABLES if issubclass(kind, base)), None)
    if table is None:
        raise InputError(
            f"{name_of_class(kind)} is no Loss, Regulariser or ConvexSet; derive it from one"
        )
    fields = [
        one.name
        for one in dataclasses.fields(kind)  # type: ignore[arg-type]
        if one.init and one.default is one.default_factory is dataclasses.MISSING
    ]
    several = _CLASSES in fields
    task: Task = "regression"
    if issubclass(kind, Loss):
        two = issubclass(kind, MarginLoss)
        task = "multiclass" if several else "binary" if two else "regression"
    numbers = tuple(name for name in fields if name != _CLASSES)
    table[name_of_class(kind)] = Entry(kind, numbers, task, by_classes=several)
    return kind


def default_loss(task: Task, *, bounded: bool) -> Named:
    """Return the default loss for the targets: of the model's likelihood, or a `bounded` one.

    The bounded one has the same root in the population, and as Lipschitz constant the slope of the
    likelihood at 0, the least possible (`CappedExponential`, `BoundedMultinomial`); the likelihood
    is statistically efficient, and smooth.
    """
    name = _LIKELIHOODS[task]
    if bounded:
        name = next(name for name, entry in LOSSES.items() if entry.task == task)
    return Named(name=name, numbers=())


def loss_named(name: str, numbers: Sequence[float], task: Task, classes: int | None) -> Loss:
    """Return a loss that suits the targets: `classes` labels or, for None, numbers.

    For any other it raises `InputError`, which lists the suitable losses.
    """
    suited = {name: entry for name, entry in LOSSES.items() if entry.task == task}
    return _named("loss", name, numbers, suited, f" for a {task} target", classes)


def regulariser_named(name: str, numbers: Sequence[float]) -> Regulariser:
    """Return "none", "l1" (W |w|_1), "l2" (W/2 |w|_2^2) or "elastic" (W1 |w|_1 + W2/2 |w|_2^2)."""
    return _named("regulariser", name, numbers, REGULARISERS)


def constraint_named(name: str, numbers: Sequence[float]) -> ConvexSet:
    """Return "none", "box" (|w_j| <= B), "ball" (|w|_2 <= R) or "simplex" (w >= 0, sum 1)."""
    return _named("constraint", name, numbers, CONSTRAINTS)


def usage(entries: Mapping[str, Entry[Any]]) -> str:
    """Return the names of a table with their numbers, such as 'none, l1:W, l2:W'."""
    return ", ".join(
        f"{name}:{','.join(entry.numbers)}" if entry.numbers else name
        for name, entry in entries.items()
    )


def _named(
    what: str,
    name: str,
    numbers: Sequence[float],
    entries: Mapping[str, Entry[T]],
    where: str = "",
    classes: int | None = None,
) -> T:
    """Return an object of a table; raise `InputError` if there is none or a number is refused."""
    entry = entries.get(name)
    if entry is None and ":" in name:
        raise InputError(
            f"{what} {name!r} is a user's class that was not imported here; --{what} {name} "
            "imports and runs that code, so add it if you trust it (in Python: import its module, "
            "and register the class)"
        )
    if entry is None or not entry.takes(len(numbers)):
        given = f"{name}:{','.join(f'{n:g}' for n in numbers)}" if numbers else name
        raise InputError(f"{what} is {given!r}; choose from {usage(entries)}{where}")
    if any(MOST < abs(number) < math.inf for number in numbers):
        raise InputError(
            f"{what} {name!r}: single precision cannot compute with numbers above {MOST:g}"
        )
    try:
        return entry.make(*numbers, *((classes,) if entry.by_classes else ()))
    except InputError as error:
        raise InputError(f"{what} {name!r}: {error}") from error
