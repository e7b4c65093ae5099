"""Admittances of lines: appendix D of Ryu and Kim 2023, the standard pi model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Complex

from tacit.power.network import Network
from tacit.typing import HostArray


class Admittance(NamedTuple):
    """The four entries of every line's matrix Y_l: currents (I_from, I_to) = Y_l (V_from, V_to)."""

    ff: Complex[HostArray, " L"]
    ft: Complex[HostArray, " L"]
    tf: Complex[HostArray, " L"]
    tt: Complex[HostArray, " L"]


def admittance(network: Network) -> Admittance:
    """Return Y_l of every line, per unit.

    With y = 1/(r + ix), charging b, tap ratio tau and phase shift theta,

        Y_ff = (y + i b/2) / tau^2,          Y_ft = -y / (tau exp(-i theta)),
        Y_tf = -y / (tau exp(i theta)),      Y_tt = y + i b/2.
    """
    y = 1 / network.impedance
    own = y + 0.5j * network.charging
    ratio = network.tap * np.exp(1j * network.shift)
    return Admittance(own / network.tap**2, -y / np.conj(ratio), -y / ratio, own)
