"""Ryu & Kim 2023, (D.2f) to (D.2i): the flows of a line."""

from __future__ import annotations

import numpy as np

from taciturn.typing import HostArray
from taciturn_papers.claims.claim import Claim, Finding, Verdict
from taciturn_power import admittance, bundled_case, network

CASES, DRAWS = ("case14", "case118"), 20


def errors(case: str) -> tuple[float, float]:
    """Return the largest errors of (D.2f) to (D.2i), per unit: as printed, and with differences.

    The flows into a line at its ends are V_i conj(Y_ff V_i + Y_ft V_j) and V_j conj(Y_tf V_i + Y_tt
    V_j), here at random voltages within 10 % of 1 and 0.3 rad.
    """
    net = network(bundled_case(case))
    y, draw = admittance(net), np.random.default_rng(0)
    worst = np.zeros(2)
    for _ in range(DRAWS):
        size, angle = draw.uniform(0.9, 1.1, net.buses), draw.uniform(-0.3, 0.3, net.buses)
        first, second = ((size * np.exp(1j * angle))[ends] for ends in net.ends.T)
        truth = np.array([
            first * np.conj(y.ff * first + y.ft * second),
            second * np.conj(y.tf * first + y.tt * second),
        ])  # fmt: skip
        for place, sign in enumerate((1.0, -1.0)):
            found = np.array([
                _flow(y.ff, y.ft, first, second, sign), _flow(y.tt, y.tf, second, first, sign)
            ])  # fmt: skip
            gap = np.maximum(np.abs((found - truth).real), np.abs((found - truth).imag))
            worst[place] = max(worst[place], gap.max())
    return float(worst[0]), float(worst[1])


def _flow(
    near: HostArray, far: HostArray, i: HostArray, j: HostArray, sign: float
) -> HostArray:  # fmt: skip
    """Return p + i q at end i by (D.2f) and (D.2g), with w_ji^RI + sign w_ij^RI."""
    cosine = i.real * j.real + i.imag * j.imag
    sine = j.real * i.imag + sign * i.real * j.imag
    active = far.real * cosine + far.imag * sine + near.real * np.abs(i) ** 2
    reactive = far.real * sine - far.imag * cosine - near.imag * np.abs(i) ** 2
    flow: HostArray = active + 1j * reactive
    return flow


def decide() -> Finding:
    """Return the finding: largest errors on two networks."""
    rows = tuple((float(case.removeprefix("case")), *errors(case)) for case in CASES)
    verdict: Verdict = "holds" if max(row[1] for row in rows) < 1e-9 else "does not hold"
    return Finding(
        verdict=verdict,
        summary=(
            f"At random voltages of {' and '.join(CASES)} the printed flows are wrong by up to "
            f"{max(row[1] for row in rows):.3g} per unit; with w_ji^RI - w_ij^RI in place of the "
            f"sum they are right to {max(row[2] for row in rows):.0e}."
        ),
        columns=("case", "error as printed", "error with the difference"),
        rows=rows,
    )


CLAIM = Claim(
    id="ryu2023/flows",
    paper="Ryu & Kim 2023, Differentially private distributed convex optimization, Appendix D",
    verdict="does not hold",
    statement=(
        "(D.2f) to (D.2i), with w_ji^RI + w_ij^RI and w^RI by (D.1), are the active and reactive "
        "flows of a line."
    ),
    reasoning=(
        "The imaginary part of V_i conj(V_j) is v_j^R v_i^I - v_i^R v_j^I = w_ji^RI - w_ij^RI, as "
        "in (D.2k) and (D.2l). The sum is most likely a misprint: without it (D.2l) would bound "
        "another quantity than the flows contain."
    ),
    decide=decide,
)
