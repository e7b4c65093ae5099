"""Losses, regularisers and constraints from the texts that a user writes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from tacit.datasets import Task
from tacit.errors import InputError
from tacit.problems import (
    L1,
    L2,
    Ball,
    Box,
    ConvexSet,
    ElasticNet,
    HuberHinge,
    Logistic,
    Loss,
    MultinomialLogistic,
    NoRegulariser,
    Regulariser,
    Simplex,
    Squared,
    WholeSpace,
)

MOST = 1e30
_T = TypeVar("_T")
_Maker = tuple[int, Callable[..., _T]]

DEFAULT_LOSS: Mapping[Task, str] = MappingProxyType(
    {"binary": "logistic", "multiclass": "multinomial", "regression": "squared"}
)
LOSSES: Mapping[Task, tuple[str, ...]] = MappingProxyType(
    {
        "binary": ("logistic", "hinge:H"),
        "multiclass": ("multinomial",),
        "regression": ("squared",),
    }
)
_REGULARISERS: Mapping[str, _Maker[Regulariser]] = MappingProxyType(
    {"none": (0, NoRegulariser), "l1": (1, L1), "l2": (1, L2), "elastic": (2, ElasticNet)}
)
_CONSTRAINTS: Mapping[str, _Maker[ConvexSet]] = MappingProxyType(
    {
        "none": (0, WholeSpace),
        "box": (1, lambda bound: Box(-bound, bound)),
        "ball": (1, Ball),
        "simplex": (0, lambda: Simplex(1.0)),
    }
)


def loss_named(text: str, task: Task, classes: int | None) -> Loss:
    """Return the loss called `text`; it must suit the targets.

    "logistic" and "hinge:H" (smoothed over a half-width H) are for two classes, "multinomial" for
    more, "squared" for numbers.

    Raises
    ------
    InputError
        If it is none of these or does not suit; the message lists those that do.

    Examples
    --------
    >>> loss_named("multinomial", "multiclass", 3).outputs
    3
    """
    makers: Mapping[Task, Mapping[str, _Maker[Loss]]] = {
        "binary": {"logistic": (0, Logistic), "hinge": (1, HuberHinge)},
        "multiclass": {"multinomial": (0, lambda: MultinomialLogistic(classes or 0))},
        "regression": {"squared": (0, Squared)},
    }
    made = makers[task]
    return _made("loss", text, made, f"{', '.join(LOSSES[task])} for a {task} target")


def regulariser_named(text: str) -> Regulariser:
    """Return "none", "l1:W" (W |w|_1), "l2:W" (W/2 |w|_2^2) or "elastic:W1,W2" (their sum).

    Raises
    ------
    InputError
        If the text is none of these, or a weight is negative, above 1e30 or not a number.
    """
    return _made("regulariser", text, _REGULARISERS, "none, l1:W, l2:W, elastic:W1,W2")


def constraint_named(text: str) -> ConvexSet:
    """Return "none", "box:B" (|w_j| <= B), "ball:R" (|w|_2 <= R) or "simplex" (w >= 0, sum 1).

    Raises
    ------
    InputError
        If the text is none of these, or a number is not above 0, or above 1e30.
    """
    return _made("constraint", text, _CONSTRAINTS, "none, box:B, ball:R, simplex")


def _made(what: str, text: str, makers: Mapping[str, _Maker[_T]], choices: str) -> _T:
    name, colon, rest = text.partition(":")
    count, maker = makers.get(name, (-1, None))
    parts = rest.split(",") if colon else []
    if maker is None or len(parts) != count:
        raise InputError(f"{what} is {text!r}; choose from {choices}")
    try:
        numbers = [float(part) for part in parts]
        if any(MOST < abs(number) < math.inf for number in numbers):
            raise InputError(f"single precision cannot compute with numbers above {MOST:g}")
        return maker(*numbers)
    except InputError as error:
        raise InputError(f"{what} {text!r}: {error}") from error
    except ValueError as error:
        raise InputError(
            f"{what} is {text!r}; after the colon come numbers, as in {choices}"
        ) from error
