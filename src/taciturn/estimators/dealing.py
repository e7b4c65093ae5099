"""Arrays of records dealt to agents."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from taciturn.datasets import Owners
from taciturn.errors import InputError
from taciturn.estimators.ranges import BoundsLike, PublicBounds
from taciturn.estimators.records import AS_THEY_ARE, owners_condition, owners_of
from taciturn.kernel.records import Draw, Parts, origin_of, random_partition
from taciturn.typing import HostArray


def deal(
    X: ArrayLike,
    y: ArrayLike,
    *,
    bounds: BoundsLike,
    agents: Any = None,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    seed: int | None = None,
) -> Owners:
    """Return the records of arrays, dealt to agents, for `taciturn.plan`.

    - `X`, `y`: (N, k) numbers and (N,) targets as the loss takes them: -1 and 1 for two classes, 0,
      ..., K - 1 for K, or any numbers.
    - `agents`: How many agents the rows are dealt to by a secret draw, or the public owner of each
      row, (N,). None for one agent that holds all.
    - `bounds`: The *public* range of each column, as in `taciturn.estimators.PrivateLinearModel`.
      Cells are clipped to it and mapped to [-1, 1], and a constant 1 is appended, so the norm of a
      row is at most sqrt(k + 1).
    - `test`: Test records, X and y, which no certificate covers.
    - `seed`: The seed of the draw, for a reproduction.

    `InputError`, which quotes no cell, if bounds or owners do not suit the arrays.

    **Guarantee.** Each row is a function of one record and public facts. See
    `taciturn.kernel.records.Draw` for who has which record.
    """
    scaler = PublicBounds(bounds=bounds).fit(X)
    targets = _numbers(y)
    rows = _encoded(scaler, X)
    if len(rows) != len(targets):
        raise InputError(f"there are {len(rows)} rows and {len(targets)} targets; give one each")
    number, known = owners_of(agents, len(rows))
    owned = random_partition(len(rows), number or 1, draw=Draw.given(None, seed))
    if known is not None:
        owned = Parts(known, origin_of(known))
    no_test = (np.zeros((0, rows.shape[1])), np.zeros(0, targets.dtype))
    held, answers = no_test if test is None else (_encoded(scaler, test[0]), _numbers(test[1]))
    return Owners(
        rows,
        targets,
        owned,
        math.sqrt(rows.shape[1]),
        held,
        answers,
        (
            "the bounds of the columns are public, as the caller declares (bounds=)",
            owners_condition(None, dealt=known is None and number != 1),
            AS_THEY_ARE,
        ),
    )


def _encoded(scaler: PublicBounds, cells: ArrayLike) -> Float[HostArray, "N D"]:
    rows = scaler.transform(cells)
    if np.isnan(rows).any():
        raise InputError("X has missing cells; fill them in with a public value, or drop the rows")
    return np.concatenate([rows, np.ones((len(rows), 1))], axis=1)


def _numbers(targets: ArrayLike) -> HostArray:
    found = np.asarray(targets)
    if found.ndim != 1 or not np.issubdtype(found.dtype, np.number):
        raise InputError(
            f"y has shape {found.shape} and type {found.dtype}; give one number for each row, for "
            "example -1 or 1"
        )
    return found if np.issubdtype(found.dtype, np.integer) else found.astype(np.float64)
