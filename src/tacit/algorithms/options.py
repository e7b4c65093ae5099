"""The options of methods, each declared once for plans, command line and estimators."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit import checks
from tacit.algorithms.admm import steady_rho
from tacit.algorithms.algorithm import Noise
from tacit.errors import InputError
from tacit.privacy import Terms, gaussian_multiplier, mean_gradient_bound
from tacit.privacy.events import LEAST_RATE
from tacit.problems import Problem
from tacit.spec import Spec

Value = float | int | str
BATCHES = ("poisson", "fixed")
STEPS = ("accelerated", "public", "published")
LEAST, MOST = 1e-30, 1e30


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The public facts that a method is built from.

    Attributes
    ----------
    clip
        Bound on the norm of a record's coefficient; may be infinite.
    options
        The values of the method's options, by name.
    """

    problem: Problem
    facts: Spec
    clip: float
    terms: Terms
    rounds: int
    options: dict[str, Value]


@dataclass(frozen=True)
class Option:
    """One option of a method.

    Attributes
    ----------
    name
        As in Python; the command line writes - for _.
    kind
        float, int or str.
    default
        A value, or a function of the setting, whose `options` are then empty.
    check
        Returns the value as it is used, or raises `InputError`.
    help
        A few words for help texts.
    """

    name: str
    kind: type[Value]
    default: Value | Callable[[Setting], Value]
    check: Callable[[Any], Value]
    help: str

    def value(self, given: Value | None, setting: Setting) -> Value:
        """Return the value that was given, checked, or the default where none was."""
        if given is not None:
            return self.checked(given)
        return self.default(setting) if callable(self.default) else self.default

    def checked(self, given: Any) -> Value:
        """Return a value of the option's kind; `InputError` for any other."""
        if isinstance(given, bool) or not isinstance(given, (str, int, float)):
            raise InputError(f"{self.title} is {given!r}; it must be {_KINDS[self.kind]}")
        if isinstance(given, str) != (self.kind is str):
            raise InputError(f"{self.title} is {given!r}; it must be {_KINDS[self.kind]}")
        value = self.kind(self.check(given))
        if isinstance(value, float) and value != 0 and not LEAST <= abs(value) <= MOST:
            raise InputError(
                f"{self.title} is {given:g}; single precision computes with numbers between "
                f"{LEAST:g} and {MOST:g}"
            )
        return value

    @property
    def title(self) -> str:
        """The name as the command line writes it."""
        return self.name.replace("_", "-")


_KINDS: dict[type[Value], str] = {float: "a number", int: "a whole number", str: "text"}


def _steady(setting: Setting) -> float:
    """Return `steady_rho` for the noise that the terms ask for."""
    terms, multiplier = setting.terms, 0.0
    if math.isfinite(terms.epsilon):
        multiplier = gaussian_multiplier(terms.epsilon, terms.delta, setting.rounds)
    bound = mean_gradient_bound(setting.facts, terms.adjacency, norm="l2", rounds=1, questions=1)
    moves = np.where(np.isfinite(bound.value[:, 0, 0]), bound.value[:, 0, 0], 0.0)
    return float(steady_rho(setting.facts, setting.rounds, Noise(multiplier, multiplier * moves)))


def _rate(given: Any) -> float:
    rate = checks.fraction("sampling-rate", given)
    if rate < LEAST_RATE:
        raise InputError(f"sampling-rate is {rate:g}; it must be at least {LEAST_RATE:g}")
    return rate


def _batches(given: Any) -> str:
    if given not in BATCHES:
        raise InputError(f"batches is {given!r}; choose from {', '.join(BATCHES)}")
    return str(given)


def _steps(given: Any) -> str:
    if given not in STEPS:
        raise InputError(f"steps is {given!r}; choose from {', '.join(STEPS)}")
    return str(given)


def _positive_rho(given: Any) -> float:
    return checks.positive("rho", given)


_RHO_HELP = "The ADMM parameter."
RHO = Option("rho", float, 0.1, _positive_rho, _RHO_HELP)
STEADY_RHO = Option("rho", float, _steady, _positive_rho, _RHO_HELP)
LOCAL_UPDATES = Option(
    "local_updates",
    int,
    1,
    lambda given: checks.at_least("local-updates", given, 1),
    "Updates, each a question, in one round.",
)
SAMPLING_RATE = Option("sampling_rate", float, 0.1, _rate, "Share of the records in a batch.")
BATCH_SIZES = Option(
    "batches",
    str,
    "poisson",
    _batches,
    "poisson, or fixed: of one size, without replacement (replace_one).",
)
SMOOTHING = Option(
    "smoothing",
    float,
    0.0,
    lambda given: checks.not_negative("smoothing", given),
    "Strength of Laplacian smoothing.",
)
STEP_RULE = Option(
    "steps",
    str,
    "accelerated",
    _steps,
    "accelerated: with momentum; public: without; published: as printed.",
)
