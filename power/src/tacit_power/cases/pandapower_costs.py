"""The costs of a pandapower network as rows of MATPOWER's gencost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from tacit.errors import DataError
from tacit.typing import HostArray
from tacit_power.cases.case import Elements
from tacit_power.cases.tables import Net, Table

_REACTIVE = ("cq0_eur", "cq1_eur_per_mvar", "cq2_eur_per_mvar2")
_KINDS = ("gen", "ext_grid", "sgen", "load", "storage", "dcline")


def gencost_of(net: Net, generators: Elements) -> tuple[Float[HostArray, "G _C"], tuple[str, ...]]:
    """Return a row of costs for every generator, and what else has a cost and is left out.

    A generator without costs has cost 0. A currency stands for another: euros are written as they
    are.

    Raises
    ------
    DataError
        If a generator has two costs, reactive power has one, or pieces do not follow one another.
    """
    place = {pair: k for k, pair in enumerate(zip(generators.tables, generators.rows, strict=True))}
    rows: dict[int, list[float]] = {}
    left: list[str] = []
    for table in (net.table("poly_cost"), net.table("pwl_cost")):
        kinds, elements = table.texts("et"), table.places("element").tolist()
        for k, pair in enumerate(zip(kinds, elements, strict=True)):
            row = _polynomial(table, k) if "points" not in table.columns else _pieces(table, k)
            if pair[0] not in _KINDS:
                raise DataError(f"{table.where}: row {table.index[k]} is of no kind known (et)")
            if pair not in place:
                left.append(f"costs of {pair[0]} {pair[1]}")
            elif place[pair] in rows:
                raise DataError(
                    f"{table.where}: {pair[0]} {pair[1]} has a second cost in row "
                    f"{table.index[k]}; give it one"
                )
            else:
                rows[place[pair]] = row
    none = [2.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0]
    width = max([len(row) for row in rows.values()], default=len(none))
    filled = [rows.get(k, none) for k in range(len(place))] if rows else []
    padded = [row + [0.0] * (max(width, len(none)) - len(row)) for row in filled]
    return np.array(padded) if padded else np.zeros((0, 0)), tuple(left)


def _polynomial(table: Table, k: int) -> list[float]:
    row = table.kept(np.arange(len(table)) == k)
    if any(row.numbers(name, 0.0)[0] != 0 for name in _REACTIVE):
        raise _reactive(table, k)
    names = ("cp2_eur_per_mw2", "cp1_eur_per_mw", "cp0_eur")
    return [2.0, 0.0, 0.0, 3.0, *(float(row.numbers(name, 0.0)[0]) for name in names)]


def _pieces(table: Table, k: int) -> list[float]:
    """Return points and their costs; a piece is from, to, slope, and the first begins at p s."""
    if table.texts("power_type")[k] == "q":
        raise _reactive(table, k)
    points = table.columns["points"][k]
    if isinstance(points, str):
        points = _listed(points)
    pieces = points if isinstance(points, list) else []
    if not pieces or not all(_is_piece(piece) for piece in pieces):
        raise DataError(
            f"{table.where}: row {table.index[k]} is no list of pieces (from MW, to MW, slope)"
        )
    if any(one[1] != other[0] for one, other in pairwise(pieces)):
        raise DataError(
            f"{table.where}: the pieces of row {table.index[k]} do not follow one another; let "
            "each begin where the last ends"
        )
    power, cost = [float(pieces[0][0])], [float(pieces[0][0]) * float(pieces[0][2])]
    for low, high, slope in pieces:
        power.append(float(high))
        cost.append(cost[-1] + (high - low) * slope)
    return [1.0, 0.0, 0.0, float(len(power)), *np.stack([power, cost], axis=1).ravel().tolist()]


def _is_piece(piece: object) -> bool:
    return (
        isinstance(piece, Sequence)
        and len(piece) == 3
        and all(isinstance(v, int | float) and not isinstance(v, bool) for v in piece)
        and all(abs(v) < 1e15 for v in piece)
    )


def _listed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _reactive(table: Table, k: int) -> DataError:
    return DataError(
        f"{table.where}: row {table.index[k]} gives reactive power a cost, which is not supported; "
        "leave it out"
    )
