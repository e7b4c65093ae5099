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
from taciturn.kernel.questions import Loss, Squared
from taciturn.problems.losses import HuberHinge, Logistic, MultinomialLogistic
from taciturn.problems.regularisers import L1, L2, ElasticNet, NoRegulariser, Regulariser
from taciturn.problems.sets import Ball, Box, ConvexSet, Simplex, WholeSpace
from taciturn.typing import Task

MOST = 1e30
T = TypeVar("T")


@dataclass(frozen=True)
class Entry(Generic[T]):
    """How an object is built from numbers, and what help texts call these; of a loss, its task."""

    make: Callable[..., T]
    numbers: tuple[str, ...] = ()
    task: Task = "regression"
    by_classes: bool = False  # whether the number of classes follows the numbers


LOSSES: Mapping[str, Entry[Loss]] = MappingProxyType(
    {
        "logistic": Entry(Logistic, task="binary"),
        "hinge": Entry(HuberHinge, ("H",), task="binary"),
        "multinomial": Entry(MultinomialLogistic, task="multiclass", by_classes=True),
        "squared": Entry(Squared, task="regression"),
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
    """Return the name of the first loss in the table that suits the targets."""
    return next(name for name, entry in LOSSES.items() if entry.task == task)


def loss_named(name: str, numbers: Sequence[float], task: Task, classes: int | None) -> Loss:
    """Return a loss that suits the targets, `classes` labels or, None, numbers.

    Raises `InputError`, which lists the losses that suit, if this is none of them.
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
    if entry is None or len(numbers) != len(entry.numbers):
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
