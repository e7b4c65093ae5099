"""Lines, transformers and impedances of a pandapower network as branches of MATPOWER's case format.

Each is a standard pi model per unit of `sn_mva`, as pandapower's power flow has it: transformers by
the T model, which is its default, with the tap changers at the positions of the file.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from tacit.errors import DataError
from tacit.typing import HostArray
from tacit_power.cases.tables import Net, Table

_WIDTH = 13


class Branches(NamedTuple):
    """Branches of one table.

    Attributes
    ----------
    ends
        `(L, 2)`: bus indices of the file.
    values
        `(L, 6)`: r, x, b (pu), rateA (MVA; 0 is unlimited), ratio, angle (degrees).
    lossy
        Whether a conductance to ground was left out: neither model of the network here has one.
    """

    table: Table
    ends: Int[HostArray, "L 2"]
    values: Float[HostArray, "L 6"]
    lossy: bool


def lines_of(net: Net, table: Table, level: Float[HostArray, " L"]) -> Branches:
    """Return the lines; `level` is the rated voltage at their from bus, kV.

    With Z = V^2 / S: r = R length / (Z parallel), likewise x; b = 2 pi f C length parallel Z; the
    limit is that of the current, max_i_ka df parallel max_loading_percent/100, at V.
    """
    length, parallel = table.numbers("length_km"), table.numbers("parallel", 1.0)
    base = level**2 / net.sn_mva
    rate = table.numbers("max_loading_percent", 0.0) / 100 * np.sqrt(3) * level * parallel
    if np.any(rate):
        rate = rate * table.numbers("max_i_ka") * table.numbers("df", 1.0)
    values = [
        table.numbers("r_ohm_per_km") * length / base / parallel,
        table.numbers("x_ohm_per_km") * length / base / parallel,
        2e-9 * np.pi * net.f_hz * table.numbers("c_nf_per_km") * base * length * parallel,
        rate,
        np.zeros(len(table)),
        np.zeros(len(table)),
    ]
    ends = np.stack([table.places("from_bus"), table.places("to_bus")], axis=1)
    return Branches(table, ends, np.stack(values, 1), bool(np.any(table.numbers("g_us_per_km", 0))))


def impedances_of(net: Net, table: Table) -> Branches:
    """Return the impedances; their limit is `sn_mva`, as in pandapower.

    Raises
    ------
    DataError
        If one differs by direction or side, which a branch cannot.
    """
    sides = [("rft_pu", "rtf_pu"), ("xft_pu", "xtf_pu"), ("bf_pu", "bt_pu"), ("gf_pu", "gt_pu")]
    for one, other in sides:
        missing = 0.0 if one[0] in "bg" else None
        apart = table.numbers(one, missing) != table.numbers(other, missing)
        if np.any(apart):
            raise DataError(
                f"{table.where}: row {table.index[apart][0]} has another {one} than {other}, "
                "which is not supported; make both ends alike"
            )
    rate = table.numbers("sn_mva")
    values = [
        table.numbers("rft_pu") / rate * net.sn_mva,
        table.numbers("xft_pu") / rate * net.sn_mva,
        2 * table.numbers("bf_pu", 0.0) * rate / net.sn_mva,
        rate,
        np.zeros(len(table)),
        np.zeros(len(table)),
    ]
    ends = np.stack([table.places("from_bus"), table.places("to_bus")], axis=1)
    return Branches(table, ends, np.stack(values, 1), bool(np.any(table.numbers("gf_pu", 0.0))))


def transformers_of(net: Net, table: Table, level: Float[HostArray, "L 2"]) -> Branches:
    """Return the two-winding transformers; `level` is the rated voltage of their buses, kV.

    Raises
    ------
    DataError
        If a tap changer is given by a table or a characteristic, or the leakage is divided
        unevenly between the windings.
    """
    _refuse_tables(table)
    high, low, shift = _tapped(table)
    parallel, rated = table.numbers("parallel", 1.0), table.numbers("sn_mva")
    # z is stated at the low side, at the voltage of its tap
    scale = (low / level[:, 1]) ** 2 * net.sn_mva
    z = table.numbers("vk_percent") / 100 / rated * scale
    r = table.numbers("vkr_percent") / 100 / rated * scale
    if np.any(np.abs(r) > np.abs(z)):
        odd = table.index[np.abs(r) > np.abs(z)][0]
        raise DataError(f"{table.where}: vkr_percent of row {odd} exceeds vk_percent; correct it")
    x = np.sign(z) * np.sqrt(z**2 - r**2)
    g, b = _magnetising(table, rated)
    to_pu = parallel * level[:, 1] ** 2 / low**2 / net.sn_mva
    series, charging = _pi((r + 1j * x) / parallel, (g + 1j * b) * to_pu)
    rate = table.numbers("max_loading_percent", 0.0) / 100 * rated * table.numbers("df", 1.0)
    ratio = high / low / (level[:, 0] / level[:, 1])
    values = [series.real, series.imag, charging.imag, rate * parallel, ratio, shift]
    ends = np.stack([table.places("hv_bus"), table.places("lv_bus")], axis=1)
    return Branches(table, ends, np.stack(values, axis=1), bool(np.any(g)))


def _pi(series: HostArray, shunt: HostArray) -> tuple[HostArray, HostArray]:
    """Return series impedance and total charging of the pi model of z/2, y, z/2 in a T."""
    return series + series**2 * shunt / 4, shunt / (1 + series * shunt / 4)


def _magnetising(table: Table, rated: HostArray) -> tuple[HostArray, HostArray]:
    """Return what the iron takes at rated voltage: MW, and MVAr below 0."""
    iron = table.numbers("pfe_kw", 0.0) / 1000
    idle = table.numbers("i0_percent", 0.0) / 100 * rated
    return iron, -np.sqrt(np.maximum(idle**2 - iron**2, 0))


def _refuse_tables(table: Table) -> None:
    tabled = table.flags("tap_dependency_table", missing=False)
    tabled = tabled | table.flags("tap_dependent_impedance", missing=False)
    for tap in ("tap", "tap2"):
        kinds = table.texts(f"{tap}_changer_type")
        tabled = tabled | np.array([kind == "Tabular" for kind in kinds], bool)
    if np.any(tabled):
        raise DataError(
            f"{table.where}: row {table.index[tabled][0]} has a tap changer given by a table "
            "(tap_dependency_table), which is not supported; write its ratio and impedance out"
        )
    for ratio in ("leakage_resistance_ratio_hv", "leakage_reactance_ratio_hv"):
        uneven = table.numbers(ratio, 0.5) != 0.5
        if np.any(uneven):
            raise DataError(
                f"{table.where}: {ratio} of row {table.index[uneven][0]} is not 0.5, which is not "
                "supported; divide the leakage evenly"
            )


def _tapped(table: Table) -> tuple[HostArray, HostArray, HostArray]:
    """Return the rated voltages (kV) and the phase shift (degrees) at the tap positions."""
    voltage = {"hv": table.numbers("vn_hv_kv"), "lv": table.numbers("vn_lv_kv")}
    shift = table.numbers("shift_degree", 0.0)
    for tap in ("tap", "tap2"):
        moved = table.numbers(f"{tap}_pos", np.nan) - table.numbers(f"{tap}_neutral", np.nan)
        percent = table.numbers(f"{tap}_step_percent", np.nan)
        degree = table.numbers(f"{tap}_step_degree", 0.0)
        sides = table.texts(f"{tap}_side")
        ideal, stepped = _kinds(table, tap)
        for side, sign in (("hv", 1.0), ("lv", -1.0)):
            here = np.array([one == side for one in sides], bool) & np.isfinite(moved)
            step = np.where(np.isfinite(percent), moved * percent / 100, 0.0)
            at = here & stepped
            turn = np.exp(1j * np.deg2rad(degree[at]))
            reached = 1 + step[at] * turn
            voltage[side][at] *= np.abs(reached)
            shift[at] += sign * np.rad2deg(np.arctan(reached.imag / reached.real))
            at = here & ideal
            by_percent = 2 * np.rad2deg(np.arcsin(step[at] / 2))
            shift[at] += sign * np.where(degree[at] != 0, moved[at] * degree[at], by_percent)
    return voltage["hv"], voltage["lv"], shift


def _kinds(table: Table, tap: str) -> tuple[HostArray, HostArray]:
    """Return which changers shift the phase alone, and which change the ratio.

    Version 3 names the kind, version 2 has a flag for those that shift alone.
    """
    if f"{tap}_changer_type" in table.columns:
        kinds = np.array(table.texts(f"{tap}_changer_type"), str)
        return kinds == "Ideal", (kinds == "Ratio") | (kinds == "Symmetrical")
    ideal = table.flags(f"{tap}_phase_shifter", missing=False)
    return ideal, ~ideal
