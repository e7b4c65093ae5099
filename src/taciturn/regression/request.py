"""From a formula and a family to a training by Newton's method."""

from __future__ import annotations

import math
from dataclasses import replace

from taciturn import checks
from taciturn.algorithms import NEWTON
from taciturn.errors import InputError
from taciturn.features import ALL, FORMULA
from taciturn.problems import NONE
from taciturn.regression.families import Family
from taciturn.tables import Bounds
from taciturn.training import Request

# rounds: so many that the last step is short; without privacy, until nothing changes
_ROUNDS, _ROBUST, _WITHOUT_NOISE, _FEWEST = 8, 9, 40, 4


def regression_request(
    request: Request, bounds: Bounds, formula: str | None, family: Family, *, robust: bool
) -> Request:
    """Return the request of a regression: Newton's method, the likelihood's loss, no regulariser.

    Coefficients are per unit of the user's columns, so there is no centre, and the features are the
    terms of the formula, by default every column. `robust`: whether standard errors hold if the
    family is wrong, at the cost of more noise.
    """
    target, right = sides(ALL if formula is None else formula)
    if target is not None and target != bounds.target_name:
        raise InputError(
            f"the formula is about {target[:100]!r}, and the target of the bounds file is "
            f"{bounds.target_name!r}; name the same column"
        )
    loss = family.loss_for(bounds)
    if request.rounds is not None:
        checks.at_least("rounds", request.rounds, _FEWEST)
    options = {"covariance": "robust"} if robust else {}
    noiseless = math.isinf(request.epsilon)
    rounds = _WITHOUT_NOISE if noiseless else _ROBUST if robust else _ROUNDS
    return replace(
        request,
        algorithm=NEWTON,
        rounds=rounds if request.rounds is None else request.rounds,
        loss=loss,
        clip=family.clip_for(loss, request.epsilon),
        regulariser=NONE,
        constraint=NONE,
        features=FORMULA + right,
        centre=False,
        options=options,
        precision="float64",
    )


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
    return left.strip().removeprefix("`").removesuffix("`"), right.strip()
