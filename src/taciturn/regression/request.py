"""From a formula and a family to a training by Newton's method."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from taciturn import checks
from taciturn.algorithms import NEWTON
from taciturn.errors import InputError
from taciturn.features import ALL, FORMULA, Response
from taciturn.problems import NONE, Named
from taciturn.regression.families import family_named
from taciturn.tables import Bounds
from taciturn.training import Request

# rounds: so many that the last step is short; without privacy, until nothing changes
_ROUNDS, _ROBUST, _WITHOUT_NOISE, _FEWEST = 8, 9, 40, 4


class RegressionRequest(NamedTuple):
    """What is estimated.

    - `formula`: None for every column.
    - `family`: Its name, with numbers after a colon.
    - `cuts`, `most`: Of a survival time: the inner ends of its intervals, and the largest sum of
      hazards of a record.
    - `robust`: Whether standard errors hold if the family is wrong, at the cost of more noise.
    """

    formula: str | None = None
    family: str = "gaussian"
    cuts: tuple[float, ...] = ()
    most: float = 2.0
    robust: bool = False


def regression_request(request: Request, bounds: Bounds, asked: RegressionRequest) -> Request:
    """Return the request of a regression: Newton's method, the likelihood's loss, no regulariser.

    Coefficients are per unit of the user's columns, so there is no centre, and the features are the
    terms of the formula. Raises `InputError` for persons and for records that are held out.
    """
    if request.rows_per_person is not None:
        raise InputError(
            "standard errors are of independent rows; estimate a table with one row for each "
            "person, without rows_per_person"
        )
    if request.evaluate is not None:
        raise InputError("all records count for standard errors; leave evaluate out")
    named = Named.parse("the family", asked.family)
    family = family_named(named.name)
    text = ALL if asked.formula is None else asked.formula
    left, right = sides(text)
    survival = None if left is None else Response.parse(left)
    target = response_name(text)
    if target is not None and target != bounds.target_name:
        raise InputError(
            f"the formula is about {target[:100]!r}, and the target of the bounds file is "
            f"{bounds.target_name!r}; name the same column"
        )
    if family.survival != (survival is not None):
        what = "a survival time" if family.survival else "a single column"
        raise InputError(
            f"the family {family.name} is for {what} on the left side of the formula; write "
            f"{'Surv(time, event) ~ ...' if family.survival else 'COLUMN ~ ...'}"
        )
    loss = family.loss_for(bounds, named.numbers, most=asked.most, cuts=asked.cuts)
    if request.rounds is not None:
        checks.at_least("rounds", request.rounds, _FEWEST)
    # the mean squared coefficient would count rows without a response, which are 0
    unlike = bounds.leave_out and family.covariance == "dispersion"
    covariance = "robust" if asked.robust or unlike else family.covariance
    robust, noiseless = covariance == "robust", math.isinf(request.epsilon)
    rounds = _WITHOUT_NOISE if noiseless else _ROBUST if robust else _ROUNDS
    return replace(
        request,
        algorithm=NEWTON,
        rounds=rounds if request.rounds is None else request.rounds,
        loss=loss,
        clip=family.clip_for(loss, request.epsilon, len(bounds.labels or ()) or None),
        regulariser=NONE,
        constraint=NONE,
        features=FORMULA + (right if survival is None else f"{left} ~ {right}"),
        centre=False,
        options={"covariance": covariance},
        precision="float64",
    )


def response_name(formula: str) -> str | None:
    """Return the column of the response, or of its time; None where a formula has only terms."""
    left, _ = sides(formula)
    survival = None if left is None else Response.parse(left)
    return left if survival is None else survival.time


def sides(formula: str) -> tuple[str | None, str]:
    """Return the response and the terms of a formula; None where it has only terms.

    Examples
    --------
    >>> sides("ill ~ age + C(sex)"), sides("age")
    (('ill', 'age + C(sex)'), (None, 'age'))
    """
    left, tilde, right = formula.partition("~")
    if not tilde:
        return None, formula.strip()
    left = left.strip()
    if Response.parse(left) is None:
        left = left.removeprefix("`").removesuffix("`")
    return left, right.strip()
