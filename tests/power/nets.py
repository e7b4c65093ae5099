"""A small pandapower network: what tests read and break."""

import pytest

pp = pytest.importorskip("pandapower")

LIMITS = ("min_p_mw", "max_p_mw", "min_q_mvar", "max_q_mvar")
GROUND = {"gf_pu": 0.0, "bf_pu": 0.02, "gt_pu": 0.0, "bt_pu": 0.02}


def limits(*values):
    return dict(zip(LIMITS, values, strict=True))


def five(sn_mva=100.0):
    """Five buses of 110 and 20 kV: 3 and 4 are joined by a switch, 6 is out of service."""
    net = pp.create_empty_network(name="five", sn_mva=sn_mva)
    for index, level in zip((0, 1, 2, 3, 4, 6), (110, 110, 110, 20, 20, 20), strict=True):
        pp.create_bus(net, level, index=index, min_vm_pu=0.9, in_service=index != 6)
    net.bus["max_vm_pu"] = [1.1, 1.1, None, 1.1, 1.05, 1.1]
    net.bus["max_vm_pu"] = net.bus.max_vm_pu.astype(float)
    for index, ends, km, ohm, most, percent in (
        (4, (0, 1), 20.0, 0.4, 0.3, 18.0),
        (5, (1, 2), 30.0, 0.4, 0.25, 80.0),
        (7, (0, 2), 25.0, 0.38, 0.2, 90.0),
        (9, (3, 6), 1.0, 0.1, 0.2, 100.0),
    ):
        pp.create_line_from_parameters(
            net, *ends, km, 0.06, ohm, 9.0, most, index=index, max_loading_percent=percent,
            df=0.9 if index == 5 else 1.0, parallel=2 if index == 4 else 1,
        )  # fmt: skip
    common = {"vn_hv_kv": 110.0, "vkr_percent": 0.4, "shift_degree": 30.0, "tap_neutral": 0}
    pp.create_transformer_from_parameters(
        net, 2, 3, 40.0, vn_lv_kv=20.0, vk_percent=12.0, pfe_kw=20.0, i0_percent=0.08,
        tap_side="hv", tap_step_percent=1.5, tap_step_degree=0.0, tap_pos=-2,
        tap_changer_type="Ratio", max_loading_percent=100.0, **common,
    )  # fmt: skip
    pp.create_transformer_from_parameters(
        net, 1, 4, 25.0, vn_lv_kv=21.0, vk_percent=11.0, pfe_kw=0.0, i0_percent=0.0,
        tap_side="lv", tap_step_percent=1.0, tap_step_degree=60.0, tap_pos=3,
        tap_changer_type="Symmetrical", max_loading_percent=40.0, **common,
    )  # fmt: skip
    pp.create_switch(net, 3, 4, et="b")
    pp.create_switch(net, 0, 7, et="l")
    for bus, p, q in ((1, 31.4159, 5.173713), (2, 27.1828, 4.292929), (4, 22.3607, 3.838383)):
        pp.create_load(net, bus, p, q, scaling=1.1 if bus == 2 else 1.0, controllable=False)
    pp.create_load(net, 6, 99.0, 9.0, controllable=False)
    pp.create_sgen(net, 3, 4.0, 0.5, scaling=0.5, controllable=False)
    pp.create_sgen(net, 1, 0.0, index=3, controllable=True, **limits(0.0, 12.0, -5.0, 5.0))
    pp.create_shunt(net, 2, q_mvar=-6.0, p_mw=0.3, vn_kv=112.0, step=2, max_step=2)
    pp.create_ext_grid(net, 0, vm_pu=1.02, **limits(0.0, 120.0, -60.0, 60.0))
    pp.create_gen(net, 2, 10.0, vm_pu=1.01, index=2, **limits(5.0, 60.0, -20.0, 20.0))
    pp.create_poly_cost(net, 0, "ext_grid", 40.0, cp0_eur=7.0, cp2_eur_per_mw2=0.1)
    pp.create_poly_cost(net, 2, "gen", 20.0, cp2_eur_per_mw2=0.3)
    pp.create_poly_cost(net, 3, "sgen", 1.0)
    return net


def opened():
    """A line with an open switch at an end."""
    net = five()
    net.switch.at[1, "closed"] = False
    return net


def pieces():
    """One generator with costs in pieces, the others with linear ones."""
    net = five()
    net.poly_cost = net.poly_cost.iloc[:2].assign(cp2_eur_per_mw2=0.0, cp0_eur=0.0)
    pp.create_pwl_cost(net, 3, "sgen", [[0, 5, 1.0], [5, 12, 45.0]])
    return net


def more():
    """An impedance, a ward and a storage."""
    net = five()
    net.line.at[4, "max_loading_percent"] = 30.0
    pp.create_impedance(net, 0, 2, 0.01, 0.1, 50.0, index=3, **GROUND)
    pp.create_ward(net, 1, ps_mw=2.5, qs_mvar=1.0, pz_mw=1.5, qz_mvar=0.5)
    pp.create_storage(net, 2, 3.0, max_e_mwh=9.0, controllable=False)
    return net


def shifting():
    """A tap changer that shifts the phase alone."""
    net = five()
    net.trafo["tap_changer_type"] = ["Ideal", "Ratio"]
    net.trafo["tap_step_degree"] = [2.0, 0.0]
    net.trafo["tap_step_percent"] = [0.0, 1.0]
    return net


def idle():
    """A generator that is out of service, and has a cost."""
    net = five()
    pp.create_gen(net, 1, 1.0, index=8, in_service=False, **limits(0.0, 90.0, -9.0, 9.0))
    pp.create_poly_cost(net, 8, "gen", 0.1)
    return net
