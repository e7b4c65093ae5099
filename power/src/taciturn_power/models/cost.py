"""The costs of generation: the `gencost` matrix of a case."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from taciturn.errors import DataError, InputError
from taciturn.typing import HostArray
from taciturn_power.cases import Case
from taciturn_power.grids.network import Facts, generators_in_service

_PIECEWISE, _POLYNOMIAL = 1.0, 2.0
# unsupported fields of MATPOWER's case format that change the problem
UNSUPPORTED = frozenset(
    {"A", "l", "u", "N", "fparm", "H", "Cw", "z0", "zl", "zu", "dcline", "dclinecost", "reserves"}
    | {"if", "softlims", "userfcn", "storage", "load", "switch", "multiconductor"}
)


@dataclass(frozen=True, eq=False)
class Costs:
    """Convex costs of the generators in service, in $/h of their active power in MW.

    Generator g costs quadratic_g p^2 + linear_g p + constant_g or, where it has pieces, the largest
    of them: piece k is slope_k p + intercept_k, of generator `owner_k`.
    """

    quadratic: Float[HostArray, " G"]
    linear: Float[HostArray, " G"]
    constant: Float[HostArray, " G"]
    owner: HostArray
    slope: Float[HostArray, " K"]
    intercept: Float[HostArray, " K"]

    def of(self, power: Float[HostArray, " G"]) -> float:
        """Return the total in $/h of this active power, MW."""
        return float(np.sum(self.of_each(power)))

    def of_each(self, power: Float[HostArray, " G"]) -> Float[HostArray, " G"]:
        """Return the cost of every generator in $/h."""
        total: HostArray = self.quadratic * power**2 + self.linear * power + self.constant
        if len(self.owner):
            pieces = np.full(len(power), -np.inf)
            np.maximum.at(pieces, self.owner, self.slope * power[self.owner] + self.intercept)
            total = total + np.where(np.isfinite(pieces), pieces, 0)
        return total


class CostFacts(Facts):
    """The arrays of `taciturn_power.Costs` as tuples."""

    quadratic: tuple[float, ...]
    linear: tuple[float, ...]
    constant: tuple[float, ...]
    owner: tuple[int, ...]
    slope: tuple[float, ...]
    intercept: tuple[float, ...]

    @property
    def costs(self) -> Costs:
        """The costs, checked."""
        generators = len(self.linear)
        whole = (self.quadratic, self.linear, self.constant)
        pieces = (self.owner, self.slope, self.intercept)
        if any(len(set(map(len, parts))) != 1 for parts in (whole, pieces)):
            raise InputError(f"the costs do not fit {generators} generators; give one for each")
        if any(not 0 <= owner < generators for owner in self.owner):
            raise InputError(f"a piece of a cost is of no generator among the {generators}")
        if any(value < 0 for value in self.quadratic):
            raise InputError("a quadratic cost is below 0; give c2 of at least 0")
        values = {name: np.array(getattr(self, name), float) for name in type(self).model_fields}
        return Costs(**values | {"owner": np.array(self.owner, int)})


def has_costs(case: Case) -> bool:
    """Return whether the file has costs: some number in `gencost` is not 0."""
    return case.gencost.size > 0 and bool(np.any(case.gencost[:, 4:] != 0))


def costs(case: Case) -> Costs:
    """Return the costs of the generators in service.

    Model 2 is a polynomial of degree 2 at most, model 1 a piecewise linear function, extrapolated
    beyond its points, as in MATPOWER. Costs of starting and of stopping are not read.

    Raises `DataError` if a row is missing, has another model or degree, or is not convex; if
    reactive power has a cost; or if the file has a field of `UNSUPPORTED`.
    """
    _check_parts(case)
    rows, count = case.gencost, len(case.gen)
    if len(rows) not in {count, 2 * count}:
        raise DataError(
            f"{case.name}: mpc.gencost has {len(rows)} rows for {count} generators; give one for "
            "each, in their order"
        )
    if np.any(rows[count:, 4:] != 0):
        raise DataError(
            f"{case.name}: mpc.gencost gives reactive power a cost (row {count + 1} and after), "
            "which is not supported; leave these rows out"
        )
    serving = np.flatnonzero(generators_in_service(case))
    polynomial = np.zeros((3, len(serving)))
    pieces: list[tuple[int, float, float]] = []
    for place, row in enumerate(serving.tolist()):
        if rows[row, 0] == _POLYNOMIAL:
            polynomial[:, place] = _polynomial(case, row)
        elif rows[row, 0] == _PIECEWISE:
            pieces += [(place, *piece) for piece in _pieces(case, row)]
        else:
            raise _refused(case, row, f"has cost model {rows[row, 0]:g}; use 1 or 2")
    owner, slope, intercept = np.array(pieces, float).reshape(-1, 3).T
    quadratic, linear, constant = polynomial
    return Costs(quadratic, linear, constant, owner.astype(int), slope, intercept)


def _check_parts(case: Case) -> None:
    found = sorted(UNSUPPORTED.intersection(case.others))
    if found:
        raise DataError(
            f"{case.name}: {', '.join('mpc.' + name for name in found)} cannot be taken into "
            "account; remove it, or solve --problem balance"
        )
    elastic = np.flatnonzero((case.gen[:, 9] < 0) & (case.gen[:, 8] == 0) & (case.gen[:, 7] > 0))
    if elastic.size:
        raise DataError(
            f"{case.name}: {case.generator(int(elastic[0]))} is a dispatchable load (Pmin below 0, "
            "Pmax 0), whose demand would be public; move it to the demand of its bus"
        )


def _refused(case: Case, row: int, why: str) -> DataError:
    return DataError(f"{case.name}: {case.cost(row)} {why}")


def _numbers(case: Case, row: int, each: int) -> HostArray:
    """Return the n numbers, or n pairs of numbers, of a row; n is its column 4."""
    values, count = case.gencost[row], case.gencost[row, 3]
    if count < 1 or count != int(count) or 4 + each * count > len(values):
        raise _refused(case, row, f"announces {count:g} entries and has fewer; complete it")
    found: HostArray = values[4 : 4 + each * int(count)]
    if not np.all(np.isfinite(found)):
        raise _refused(case, row, "holds an infinite number; give finite ones")
    return found


def _polynomial(case: Case, row: int) -> tuple[float, float, float]:
    coefficients = _numbers(case, row, 1)
    higher, lowest = coefficients[:-3], coefficients[-3:]
    if np.any(higher != 0):
        raise _refused(case, row, "is a polynomial of degree 3 or more; give degree 2 at most")
    quadratic, linear, constant = [0.0] * (3 - len(lowest)) + lowest.tolist()
    if quadratic < 0:
        raise _refused(case, row, "is not convex (c2 below 0); give c2 of at least 0")
    return quadratic, linear, constant


def _pieces(case: Case, row: int) -> list[tuple[float, float]]:
    x, y = _numbers(case, row, 2).reshape(-1, 2).T
    if len(x) < 2 or np.any(np.diff(x) <= 0):
        raise _refused(case, row, "needs two points or more of increasing power; correct it")
    slopes = np.diff(y) / np.diff(x)
    if np.any(np.diff(slopes) < -1e-9 * np.abs(slopes).max()):
        raise _refused(case, row, "is not convex: its slopes fall; give slopes that rise")
    return list(zip(slopes.tolist(), (y[:-1] - slopes * x[:-1]).tolist(), strict=True))
