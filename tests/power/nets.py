"""A small pandapower network as its JSON says it, written by hand: what tests read and break."""

import copy
import json

FRAME = {"_module": "pandas.core.frame", "_class": "DataFrame", "orient": "split"}
# five buses of 110 and 20 kV: 3 and 4 are joined by a switch, 6 is out of service
TABLES = {
    "bus": {
        "index": [0, 1, 2, 3, 4, 6],
        "vn_kv": [110.0, 110.0, 110.0, 20.0, 20.0, 20.0],
        "in_service": [True, True, True, True, True, False],
        "min_vm_pu": [0.9] * 6,
        "max_vm_pu": [1.1, 1.1, None, 1.1, 1.05, 1.1],
    },
    "line": {
        "index": [4, 5, 7, 9],
        "from_bus": [0, 1, 0, 3],
        "to_bus": [1, 2, 2, 6],
        "length_km": [20.0, 30.0, 25.0, 1.0],
        "r_ohm_per_km": [0.06] * 4,
        "x_ohm_per_km": [0.4, 0.4, 0.38, 0.1],
        "c_nf_per_km": [9.0] * 4,
        "g_us_per_km": [0.0] * 4,
        "max_i_ka": [0.3, 0.25, 0.2, 0.2],
        "df": [1.0, 0.9, 1.0, 1.0],
        "parallel": [2, 1, 1, 1],
        "in_service": [True] * 4,
        "max_loading_percent": [18.0, 80.0, 90.0, 100.0],
    },
    "trafo": {
        "index": [0, 1],
        "hv_bus": [2, 1],
        "lv_bus": [3, 4],
        "sn_mva": [40.0, 25.0],
        "vn_hv_kv": [110.0, 110.0],
        "vn_lv_kv": [20.0, 21.0],
        "vk_percent": [12.0, 11.0],
        "vkr_percent": [0.4, 0.4],
        "pfe_kw": [20.0, 0.0],
        "i0_percent": [0.08, 0.0],
        "shift_degree": [30.0, 30.0],
        "tap_side": ["hv", "lv"],
        "tap_neutral": [0, 0],
        "tap_step_percent": [1.5, 1.0],
        "tap_step_degree": [0.0, 60.0],
        "tap_pos": [-2, 3],
        "tap_changer_type": ["Ratio", "Symmetrical"],
        "parallel": [1, 1],
        "df": [1.0, 1.0],
        "in_service": [True, True],
        "max_loading_percent": [100.0, 40.0],
    },
    "switch": {
        "index": [0, 1],
        "bus": [3, 0],
        "element": [4, 7],
        "et": ["b", "l"],
        "closed": [True, True],
        "z_ohm": [0.0, 0.0],
    },
    "load": {
        "index": [0, 1, 2, 3],
        "bus": [1, 2, 4, 6],
        "p_mw": [31.4159, 27.1828, 22.3607, 99.0],
        "q_mvar": [5.0, 4.0, 3.0, 9.0],
        "scaling": [1.0, 1.1, 1.0, 1.0],
        "in_service": [True] * 4,
    },
    "sgen": {
        "index": [0, 3],
        "bus": [3, 1],
        "p_mw": [4.0, 0.0],
        "q_mvar": [0.5, 0.0],
        "scaling": [0.5, 1.0],
        "in_service": [True, True],
        "controllable": [False, True],
        "min_p_mw": [None, 0.0],
        "max_p_mw": [None, 12.0],
        "min_q_mvar": [None, -5.0],
        "max_q_mvar": [None, 5.0],
    },
    "shunt": {
        "index": [0],
        "bus": [2],
        "p_mw": [0.3],
        "q_mvar": [-6.0],
        "vn_kv": [112.0],
        "step": [2],
        "max_step": [2],
        "in_service": [True],
    },
    "ext_grid": {
        "index": [0],
        "bus": [0],
        "vm_pu": [1.02],
        "va_degree": [0.0],
        "slack_weight": [1.0],
        "in_service": [True],
        "min_p_mw": [0.0],
        "max_p_mw": [120.0],
        "min_q_mvar": [-60.0],
        "max_q_mvar": [60.0],
    },
    "gen": {
        "index": [2],
        "bus": [2],
        "p_mw": [10.0],
        "vm_pu": [1.01],
        "sn_mva": [None],
        "scaling": [1.0],
        "slack": [False],
        "slack_weight": [0.0],
        "in_service": [True],
        "controllable": [True],
        "min_p_mw": [5.0],
        "max_p_mw": [60.0],
        "min_q_mvar": [-20.0],
        "max_q_mvar": [20.0],
    },
    "poly_cost": {
        "index": [0, 1, 2],
        "element": [0, 2, 3],
        "et": ["ext_grid", "gen", "sgen"],
        "cp0_eur": [7.0, 0.0, 0.0],
        "cp1_eur_per_mw": [40.0, 20.0, 1.0],
        "cp2_eur_per_mw2": [0.1, 0.3, 0.0],
        "cq0_eur": [0.0] * 3,
        "cq1_eur_per_mvar": [0.0] * 3,
        "cq2_eur_per_mvar2": [0.0] * 3,
    },
}


def tables():
    """Return the tables anew, to be changed."""
    return copy.deepcopy(TABLES)


def frame(columns):
    """Return a table as pandapower writes it."""
    columns = dict(columns)
    index = columns.pop("index")
    data = [list(row) for row in zip(*columns.values(), strict=True)]
    split = {"columns": list(columns), "index": index, "data": data}
    return {**FRAME, "_object": json.dumps(split)}


def written(of=TABLES, **settings):
    """Return the text of the file; `settings` are values beside the tables."""
    parts = {name: frame(columns) for name, columns in of.items()}
    parts |= {"version": "3.5.6", "format_version": "3.3.0", "name": "five", "f_hz": 50.0}
    parts |= {"sn_mva": 100.0, **settings}
    outer = {"_module": "pandapower.auxiliary", "_class": "pandapowerNet", "_object": parts}
    return json.dumps(outer)


def opened():
    """A line with an open switch at an end."""
    changed = tables()
    changed["switch"]["closed"][1] = False
    return changed


def pieces():
    """One generator with costs in pieces."""
    changed = tables()
    costs = {name: cells[:2] for name, cells in changed["poly_cost"].items()}
    costs |= {"cp2_eur_per_mw2": [0.0, 0.0], "cp0_eur": [0.0, 0.0]}
    points = [[0, 5, 1.0], [5, 12, 45.0]]
    bent = {"index": [0], "power_type": ["p"], "element": [3], "et": ["sgen"], "points": [points]}
    return {**changed, "poly_cost": costs, "pwl_cost": bent}


def more():
    """An impedance, a ward and a storage."""
    changed = tables()
    changed["line"]["max_loading_percent"][0] = 30.0
    series = {"rft_pu": [0.01], "xft_pu": [0.1], "rtf_pu": [0.01], "xtf_pu": [0.1]}
    ground = {"gf_pu": [0.0], "bf_pu": [0.02], "gt_pu": [0.0], "bt_pu": [0.02]}
    ends = {"index": [3], "from_bus": [0], "to_bus": [2]}
    changed["impedance"] = {**ends, **series, **ground, "sn_mva": [50.0], "in_service": [True]}
    ward = {"ps_mw": [2.5], "qs_mvar": [1.0], "pz_mw": [1.5], "qz_mvar": [0.5]}
    changed["ward"] = {"index": [0], "bus": [1], **ward, "in_service": [True]}
    held = {"p_mw": [3.0], "q_mvar": [0.0], "scaling": [1.0], "max_e_mwh": [None]}
    rest = {"in_service": [True], "controllable": [False]}
    changed["storage"] = {"index": [0], "bus": [2], **held, **rest}
    return changed


def shifting():
    """A tap changer that shifts the phase alone."""
    changed = tables()
    taps = {"tap_changer_type": ["Ideal", "Ratio"], "tap_step_degree": [2.0, 0.0]}
    changed["trafo"] |= {**taps, "tap_step_percent": [0.0, 1.0]}
    return changed


def older():
    """The same tap changers as version 2 wrote them: a flag in place of a kind."""
    changed = tables()
    del changed["trafo"]["tap_changer_type"]
    changed["trafo"]["tap_phase_shifter"] = [False, False]
    return changed
