"""Families of responses: the loss of each, its public bounds, and how effects are read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from taciturn.algorithms import LARGEST_SLOPE
from taciturn.errors import InputError
from taciturn.problems import Named, loss_named
from taciturn.tables import Bounds, Numeric
from taciturn.typing import Task

# the bound on a residual, in half ranges of the response: the largest of a mean within its range
_WHOLE_RANGE = 2.0


@dataclass(frozen=True)
class Family:
    """A family of responses.

    - `loss`: The name of its loss, minus the logarithm of the likelihood.
    - `effect`: What the exponential of a coefficient is; None if it is nothing.
    - `of_range`: Whether the loss has the public range of the response as numbers.
    - `residual`: The bound on a residual, in half ranges; None for the loss's own bound.
    - `covariance`: That of Newton's method, unless robust errors are asked for.
    - `numbers`: The numbers after its name, of which `optional` may be left out.
    - `survival`: Whether the response is a survival time.
    - `linear`: Whether scores are in the units of the response, and numbers after the first too.
    """

    name: str
    task: Task
    loss: str
    effect: str | None
    of_range: bool = False
    residual: float | None = None
    covariance: Literal["model", "dispersion", "robust"] = "model"
    numbers: tuple[str, ...] = ()
    survival: bool = False
    linear: bool = False

    def loss_for(
        self,
        bounds: Bounds,
        given: Sequence[float] = (),
        *,
        most: float = 2.0,
        cuts: Sequence[float] = (),
    ) -> Named:
        """Return the loss for a table with these bounds; `InputError` if it does not suit them.

        `given`: the numbers after the family's name. `most`, `cuts`: the largest hazard of a record
        and the inner ends of intervals, of a survival time.
        """
        if bounds.task != self.task:
            kind = {"binary": "two labels", "multiclass": "several labels"}
            found, needed = (kind.get(one, "a number") for one in (bounds.task, self.task))
            raise InputError(
                f"the target {bounds.target_name!r} is {found}, and the family {self.name} needs "
                f"{needed}; choose another family, or describe the target otherwise in the bounds "
                "file"
            )
        if len(given) != len(self.numbers):
            usage = ":".join([self.name, ",".join(self.numbers)] if self.numbers else [self.name])
            raise InputError(f"the family {self.name} has {len(given)} numbers; write {usage}")
        if bool(cuts) and not self.survival:
            raise InputError(f"cuts are for survival times, not for the family {self.name}")
        numbers = tuple(given)
        if isinstance(bounds.target, Numeric):
            low, high = bounds.target.minimum, bounds.target.maximum
            if self.of_range:
                numbers = (low, high, *given)
            if self.survival:
                numbers = (high, most, *cuts)
            if self.linear:
                half = bounds.half_range
                units = {"T": half, "H": half}
                numbers = tuple(
                    one / units.get(name, 1.0)
                    for name, one in zip(self.numbers, given, strict=True)
                )
        return Named(name=self.loss, numbers=numbers)

    def clip_for(self, loss: Named, epsilon: float, classes: int | None) -> float:
        """Return the bound on a record's coefficient: the loss's own, or that on residuals.

        A smaller one would be another loss, whose minimiser is not that of the likelihood.
        """
        known = loss_named(loss.name, loss.numbers, self.task, classes).lipschitz
        if math.isfinite(known):
            return known
        return LARGEST_SLOPE if math.isinf(epsilon) or self.residual is None else self.residual


_FAMILIES = (
    Family(
        "gaussian", "regression", "squared", None, residual=_WHOLE_RANGE, covariance="dispersion",
        linear=True,
    ),
    Family("logistic", "binary", "logistic", "odds ratio"),
    Family("poisson", "regression", "poisson", "rate ratio", of_range=True),
    Family(
        "negative-binomial", "regression", "negative-binomial", "rate ratio", of_range=True,
        numbers=("DISPERSION",),
    ),
    Family(
        "gamma", "regression", "gamma", "ratio of means", of_range=True, covariance="dispersion"
    ),
    Family("multinomial", "multiclass", "multinomial", "odds ratio"),
    Family(
        "proportional-odds", "multiclass", "cumulative-logistic", "odds ratio", covariance="robust"
    ),
    Family("huber", "regression", "huber", None, covariance="robust", numbers=("T",), linear=True),
    Family(
        "quantile", "regression", "quantile", None, covariance="robust", numbers=("SHARE", "H"),
        linear=True,
    ),
    Family(
        "piecewise-exponential", "regression", "piecewise-exponential", "hazard ratio",
        survival=True,
    ),
    Family("discrete-logistic", "regression", "discrete-logistic", "odds ratio", survival=True),
    Family("discrete-cloglog", "regression", "discrete-cloglog", "hazard ratio", survival=True),
)  # fmt: skip
FAMILIES: Mapping[str, Family] = MappingProxyType({one.name: one for one in _FAMILIES})
_ALSO = {
    "binomial": "logistic", "normal": "gaussian", "linear": "gaussian",
    "exponential": "piecewise-exponential", "cloglog": "discrete-cloglog",
}  # fmt: skip


def family_named(name: str) -> Family:
    """Return a family by its name, or by the one that it has in R."""
    known = _ALSO.get(name, name)
    if known not in FAMILIES:
        raise InputError(f"there is no family {name[:100]!r}; choose from {', '.join(FAMILIES)}")
    return FAMILIES[known]
