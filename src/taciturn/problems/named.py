"""Losses, regularisers and constraint sets by name.

An entry states the numbers that follow the name, as in `elastic:W1,W2`, and builds the object from
them. A new loss, regulariser or set is a class and an entry here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from taciturn.errors import InputError
from taciturn.problems.losses import HuberHinge, Logistic, Loss, MultinomialLogistic, Squared
from taciturn.problems.regularisers import L1, L2, ElasticNet, NoRegulariser, Regulariser
from taciturn.problems.sets import Ball, Box, ConvexSet, Simplex, WholeSpace
from taciturn.typing import Task

MOST = 1e30
T = TypeVar("T")


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A named object.

    Attributes
    ----------
    make
        From the numbers to the object.
    numbers
        The names of the numbers in help texts.
    """

    make: Callable[..., T]
    numbers: tuple[str, ...] = ()


@dataclass(frozen=True)
class LossEntry(Entry[Loss]):
    """A loss, its task, and whether it takes the number of classes besides its numbers."""

    task: Task = "regression"
    by_classes: bool = False


LOSSES: Mapping[str, LossEntry] = MappingProxyType(
    {
        "logistic": LossEntry(Logistic, task="binary"),
        "hinge": LossEntry(HuberHinge, ("H",), task="binary"),
        "multinomial": LossEntry(MultinomialLogistic, task="multiclass", by_classes=True),
        "squared": LossEntry(Squared, task="regression"),
    }
)
REGULARISERS: Mapping[str, Entry[Regulariser]] = MappingProxyType(
    {
        "none": Entry(NoRegulariser),
        "l1": Entry(L1, ("W",)),
        "l2": Entry(L2, ("W",)),
        "elastic": Entry(ElasticNet, ("W1", "W2")),
    }
)
CONSTRAINTS: Mapping[str, Entry[ConvexSet]] = MappingProxyType(
    {
        "none": Entry(WholeSpace),
        "box": Entry(lambda bound: Box(-bound, bound), ("B",)),
        "ball": Entry(Ball, ("R",)),
        "simplex": Entry(lambda: Simplex(1.0)),
    }
)


def default_loss(task: Task) -> str:
    """Return the name of the first loss in the table that suits the targets.

    Examples
    --------
    >>> default_loss("binary")
    'logistic'
    """
    return next(name for name, entry in LOSSES.items() if entry.task == task)


def loss_named(name: str, numbers: Sequence[float], task: Task, classes: int | None) -> Loss:
    """Return a loss; it must suit the targets.

    Parameters
    ----------
    classes
        How many labels there are; None for numbers.

    Raises
    ------
    InputError
        If there is no such loss, it does not suit the targets, or a number is out of range; the
        message lists those that suit.

    Examples
    --------
    >>> loss_named("multinomial", (), "multiclass", 3).outputs
    3
    """
    suited = {name: entry for name, entry in LOSSES.items() if entry.task == task}
    choices = f"{usage(suited)} for a {task} target"
    entry = _entry("loss", name, numbers, suited, choices)
    return _built("loss", name, (*numbers, *((classes,) if entry.by_classes else ())), entry)


def regulariser_named(name: str, numbers: Sequence[float]) -> Regulariser:
    """Return "none", "l1" (W |w|_1), "l2" (W/2 |w|_2^2) or "elastic" (W1 |w|_1 + W2/2 |w|_2^2).

    Raises
    ------
    InputError
        If there is none of that name, or a weight is negative, above 1e30 or not a number.
    """
    entry = _entry("regulariser", name, numbers, REGULARISERS, usage(REGULARISERS))
    return _built("regulariser", name, numbers, entry)


def constraint_named(name: str, numbers: Sequence[float]) -> ConvexSet:
    """Return "none", "box" (|w_j| <= B), "ball" (|w|_2 <= R) or "simplex" (w >= 0, sum 1).

    Raises
    ------
    InputError
        If there is none of that name, or a number is not above 0, or above 1e30.
    """
    entry = _entry("constraint", name, numbers, CONSTRAINTS, usage(CONSTRAINTS))
    return _built("constraint", name, numbers, entry)


def usage(entries: Mapping[str, Entry[Any]]) -> str:
    """Return the names of a table with their numbers, as help texts show them.

    Examples
    --------
    >>> usage(REGULARISERS)
    'none, l1:W, l2:W, elastic:W1,W2'
    """
    return ", ".join(
        f"{name}:{','.join(entry.numbers)}" if entry.numbers else name
        for name, entry in entries.items()
    )


_E = TypeVar("_E", bound=Entry[Any])


def _entry(
    what: str, name: str, numbers: Sequence[float], entries: Mapping[str, _E], choices: str
) -> _E:
    entry = entries.get(name)
    if entry is None or len(numbers) != len(entry.numbers):
        given = f"{name}:{','.join(f'{n:g}' for n in numbers)}" if numbers else name
        raise InputError(f"{what} is {given!r}; choose from {choices}")
    if any(MOST < abs(number) < math.inf for number in numbers):
        raise InputError(
            f"{what} {name!r}: single precision cannot compute with numbers above {MOST:g}"
        )
    return entry


def _built(what: str, name: str, numbers: Sequence[Any], entry: Entry[T]) -> T:
    try:
        return entry.make(*numbers)
    except InputError as error:
        raise InputError(f"{what} {name!r}: {error}") from error
