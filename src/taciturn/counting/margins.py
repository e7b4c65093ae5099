r"""Tables that share their groups, reconciled from noised counts, and rounded to whole numbers.

Table v has K_v cells in each of G groups. All tables by the same groups have the same group totals
m_1 .. m_G, which add up to the public number n of records. The noised cells x have independent
errors of variance t^2. With s_vg the sum of the noised cells of table v in group g, W the sum of
1 / K_v over these tables, least squares under both conditions gives

.. math::
    m_g = a_g + \frac{n - \sum_h a_h}{G}, \quad a_g = \frac{1}{W} \sum_v \frac{s_{vg}}{K_v},
    \quad y_{vkg} = x_{vkg} + \frac{m_g - s_{vg}}{K_v},

and, within one table, the covariance

.. math::
    \operatorname{Cov}(y_{kg}, y_{lh}) = t^2 \Bigl[ \Bigl( [k = l] - \frac{1}{K} \Bigr) [g = h]
        + \frac{1}{K^2 W} \Bigl( [g = h] - \frac{1}{G} \Bigr) \Bigr].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from taciturn.features import Axis, Block
from taciturn.typing import HostArray


@dataclass(frozen=True, eq=False)
class Reconciled:
    """One table: least-squares estimates, and whole numbers that add up.

    - `cells`, `totals`: The estimates y of the cells, and m of the groups, maybe below 0.
    - `whole`: The cells in whole numbers of at least 0; their sums by group are the same in all
      tables by these groups, and add up to n.
    - `variance`, `weight`: t^2 and W.
    """

    block: Block
    cells: Float[HostArray, "K G"]
    totals: Float[HostArray, "G"]
    whole: Int[HostArray, "K G"]
    variance: float
    weight: float

    def covariance(
        self, first: Float[HostArray, "A K G"], second: Float[HostArray, "B K G"]
    ) -> Float[HostArray, "A B"]:
        """Return the covariances, by the noise, of linear functions of the cells."""
        size, groups = self.cells.shape
        by_group, others = first.sum(axis=1), second.sum(axis=1)
        totals = by_group @ others.T
        apart = totals - np.outer(by_group.sum(axis=1), others.sum(axis=1)) / groups
        within = np.tensordot(first, second, axes=((1, 2), (1, 2))) - totals / size
        found: HostArray = self.variance * (within + apart / (size**2 * self.weight))
        return found

    def variances(self, functions: Float[HostArray, "A K G"]) -> Float[HostArray, "A"]:
        """Return the variances, by the noise, of linear functions of the cells."""
        size, groups = self.cells.shape
        sums = functions.sum(axis=1)
        square = np.sum(sums**2, axis=1)
        within = np.sum(functions**2, axis=(1, 2)) - square / size
        apart = square - sums.sum(axis=1) ** 2 / groups
        found: HostArray = self.variance * np.maximum(within + apart / (size**2 * self.weight), 0.0)
        return found


def reconciled(
    blocks: Sequence[Block], noised: Float[HostArray, "S"], records: int, variance: float
) -> tuple[Reconciled, ...]:
    """Return the tables of the noised counts `noised`, whose errors have the variance `variance`.

    `records`: n, the public number of records.

    **Guarantee.** Post-processing of noised counts by public facts. Whole numbers: first the group
    totals, then the cells of every group, each by `whole_numbers`; so every margin is a sum of
    cells, groups agree in all tables by them, and all tables add up to n.
    """
    parts = np.split(np.asarray(noised, np.float64), np.cumsum([one.cells for one in blocks])[:-1])
    raw = [part.reshape(block.shape) for part, block in zip(parts, blocks, strict=True)]
    by_group: dict[Axis, list[int]] = {}
    for place, block in enumerate(blocks):
        by_group.setdefault(block.group, []).append(place)
    found: dict[int, Reconciled] = {}
    for group, places in by_group.items():
        weight = sum(1 / len(raw[place]) for place in places)
        means = sum(raw[place].mean(axis=0) for place in places) / weight
        totals = means + (records - means.sum()) / len(group.levels)
        whole = whole_numbers(totals, records)
        for place in places:
            cells = raw[place] + (totals - raw[place].sum(axis=0)) / len(raw[place])
            rounded = [
                whole_numbers(column, int(total))
                for column, total in zip(cells.T, whole, strict=True)
            ]
            found[place] = Reconciled(
                blocks[place], cells, totals, np.stack(rounded, axis=1), variance, weight
            )
    return tuple(found[place] for place in range(len(blocks)))


def whole_numbers(values: Float[HostArray, "N"], total: int) -> Int[HostArray, "N"]:
    """Return whole numbers of at least 0 with the sum `total`, near to the values.

    The values are projected to the numbers of at least 0 with that sum, and rounded by largest
    remainders: all down, and those with the largest remainders up until the sum is right.

    Examples
    --------
    >>> whole_numbers(np.array([2.4, -1.0, 3.7]), 5).tolist()
    [2, 0, 3]
    """
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    positive = np.flatnonzero(falling > excess)
    cut = excess[positive[-1]] if len(positive) else falling[0]  # a total of 0
    projected = np.maximum(values - cut, 0.0)
    found: HostArray = np.floor(projected).astype(np.int64)
    order = np.argsort(found - projected, kind="stable")
    found[order[: int(total - found.sum())]] += 1
    return found
