r"""Order of summation: data on which a sum in floating point swallows what its neighbour adds up.

In p bits, numbers from 2^k to 2^(k+1) lie u = 2^(k-p+1) apart, those below 2^k half as far. Let
records bring a sum that is taken one by one to just above 2^k, and let every later record
contribute -0.49 u: each is rounded away, and the sum stays where it is. If one of the first records
is missing, the sum stands at 2^k or below, and every later record takes u/2 from it. With n records
after the first, the two sums end n u / 2 apart, which for m records grows with m^2 2^-p: in
single precision with 400,000 records it is a thousand times what one record may move.

Compilers take sums in lanes and in blocks. The order is found by trying: `ORDERS` has the usual
ones, and every one is tried on the computed answer.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from tests.attacks.subjects import BETA, OF_TARGETS, Finding, Trials, everyone, ratios

from taciturn.kernel.privacy import ZeroOut
from taciturn.typing import HostArray


class Order(NamedTuple):
    """How a sum may be taken."""

    lane: int = 1  # rows 0, L, 2L, ... are added to one another
    block: int = 1  # sums of so many of them are added to the total
    part: int = 1  # the first 1/part of all rows are summed apart


ORDERS = (
    Order(),
    *(Order(lane=n) for n in (2, 4, 8, 16, 32)),
    *(Order(block=n) for n in (4, 8, 16, 32, 64, 128, 256, 512, 1024)),
    *(Order(part=n) for n in (2, 4, 8)),
    *(Order(lane=8, block=n) for n in (4, 32)),
    *(Order(part=n, block=320) for n in (1, 2, 4, 10)),
)
# the coordinate whose sign decides that of a coefficient, and a weight that makes it decide
_SIGN, _WEIGHT = 2.0**-12, 2.0**40
_FAR = 1e4
BY_COLUMN = ("gradient, ten classes", "mini-batch difference")


class Staircase(NamedTuple):
    """The terms of a sum: `rising` rows bring 1 each, `falling` ones -`step`; the rest nothing.

    `changed` is the last rising one: without it the sum stays below the power of two.
    """

    rising: HostArray
    falling: HostArray
    step: float
    changed: int


def staircase(rows, order, unit, precision):
    """Return the terms that drive two neighbouring sums furthest apart if summed in `order`."""
    chain = np.arange(0, rows // order.part, order.lane)
    kind = np.dtype(precision).type
    sums = np.cumsum(np.full(len(chain), unit, kind), dtype=kind)
    powers = 2.0 ** np.arange(np.floor(np.log2(sums[0])), np.ceil(np.log2(sums[-1])))
    heads = np.searchsorted(sums, powers, side="right") + 1
    best = int(np.argmax((len(chain) - heads) * powers))
    head, power = int(heads[best]), float(powers[best])
    step = 0.49 * power * float(np.finfo(precision).eps) / unit
    return Staircase(chain[:head], chain[head :: order.block], step, int(chain[head - 1]))


def worst_order(subject, precision, *, records, columns, together=False, orders=ORDERS):
    """Return how far the worst of the orders moves the answers of an oracle."""
    usable = [order for order in orders if records // (order.part * order.lane) >= 8]
    unit = unit_of(subject.name, records)
    stairs = (staircase(records, order, unit, precision) for order in usable)
    pairs = [climbing(subject, one, records, columns) for one in stairs]
    trials: Trials = jax.tree.map(lambda *leaves: np.concatenate(leaves), *pairs)
    planned = subject.planned(records, columns, precision)
    worst = float(np.max(ratios(subject, planned, trials, together=together)))
    shown = f"order of summation, {subject.terms}"
    outputs = subject.outputs(columns)
    return Finding(subject.name, shown, precision, records, columns, outputs, worst)


ORDERED = (
    "gradient",
    "gradient, ten classes",
    "mini-batch gradient",
    "mini-batch difference",
    "snapshot",
    "statistics",
    "projected step",
    "proximal step",
    "target gradient",
)


def unit_of(name, records):
    """Return what one rising record contributes to the sum that the oracle takes."""
    if name == "statistics":
        return float(np.float32(1 / np.float32(records)))
    return 2.0 if name == "mini-batch difference" else 1.0


def climbing(subject, stairs, records, columns):
    """Return one pair of data sets whose records contribute the terms of a staircase.

    The size of a term is that of the record's first coordinate, since all coefficients are as large
    as they may be. Their sign is the sign of the target, at the query 0; or, where that would not
    do, the sign of the second coordinate, at a query so large that nothing else counts.
    """
    by_column = subject.name in BY_COLUMN
    full = 1 - 2.0**-23 if by_column else 1.0
    rows, sign = np.zeros((records, columns)), np.ones(records)
    rows[stairs.rising, 0] = full
    rows[stairs.falling, 0] = stairs.step * full
    sign[stairs.falling] = -1
    other, other_sign, kept = rows.copy(), sign.copy(), np.ones(records)
    if isinstance(subject.relation, ZeroOut):
        kept[stairs.changed] = 0
    else:
        other_sign[stairs.changed] = -1
    if by_column:
        rows[:, 1], other[:, 1] = _SIGN * sign, _SIGN * other_sign
    shape = (1, *subject.shape(columns))
    point, anchor = np.zeros(shape), np.zeros(shape)
    if by_column:
        first = (0, 1) if len(shape) == 2 else (0, 1, 0)
        point[first], anchor[first] = _WEIGHT, -_WEIGHT
    targets = [_targets(subject.name, s) for s in (sign, other_sign)]
    data = (rows[None], targets[0][None], other[None], targets[1][None], kept[None])
    return Trials(*data, subject.ask(point, anchor), _whole_batches(subject.name, records))


def _targets(name, sign):
    """Return targets that give the coefficients their sign; with columns for that, none does."""
    if name == "gradient, ten classes":
        return (sign > 0).astype(np.int32)
    if name == "mini-batch difference":
        return np.zeros(len(sign))
    if name == "statistics":
        return sign
    return -sign * (BETA / 2 if name in OF_TARGETS else _FAR)


def _whole_batches(name, records):
    """Return a batch of all records, which is as good as any other."""
    if not name.startswith("mini-batch"):
        return None
    return everyone(1, records)
