"""Families of responses: the loss of each, its public bounds, and how effects are read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

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
    """

    name: str
    task: Task
    loss: str
    effect: str | None
    of_range: bool = False
    residual: float | None = None

    def loss_for(self, bounds: Bounds) -> Named:
        """Return the loss for a table with these bounds; `InputError` if it does not suit them."""
        if bounds.task != self.task:
            kind = {"binary": "two labels", "multiclass": "several labels"}
            found, needed = (kind.get(one, "a number") for one in (bounds.task, self.task))
            raise InputError(
                f"the target {bounds.target_name!r} is {found}, and the family {self.name} needs "
                f"{needed}; choose another family, or describe the target otherwise in the bounds "
                "file"
            )
        numbers: tuple[float, ...] = ()
        if self.of_range and isinstance(bounds.target, Numeric):
            numbers = (bounds.target.minimum, bounds.target.maximum)
        return Named(name=self.loss, numbers=numbers)

    def clip_for(self, loss: Named, epsilon: float) -> float:
        """Return the bound on a record's coefficient: the loss's own, or that on residuals.

        A smaller one would be another loss, whose minimiser is not that of the likelihood.
        """
        known = loss_named(loss.name, loss.numbers, self.task, None).lipschitz
        if math.isfinite(known):
            return known
        return LARGEST_SLOPE if math.isinf(epsilon) or self.residual is None else self.residual


_FAMILIES = (
    Family("gaussian", "regression", "squared", None, residual=_WHOLE_RANGE),
    Family("logistic", "binary", "logistic", "odds ratio"),
    Family("poisson", "regression", "poisson", "rate ratio", of_range=True),
)
FAMILIES: Mapping[str, Family] = MappingProxyType({one.name: one for one in _FAMILIES})
_ALSO = {"binomial": "logistic", "normal": "gaussian", "linear": "gaussian"}


def family_named(name: str) -> Family:
    """Return a family by its name, or by the one that it has in R."""
    known = _ALSO.get(name, name)
    if known not in FAMILIES:
        raise InputError(f"there is no family {name[:100]!r}; choose from {', '.join(FAMILIES)}")
    return FAMILIES[known]
