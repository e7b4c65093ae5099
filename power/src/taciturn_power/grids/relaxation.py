"""The second-order cone relaxation (D.2) of Ryu and Kim 2023, as sparse matrices.

Variables, in this order (per unit, n in all):

    W   (N)  w_ii^RR + w_ii^II = |V_i|^2
    c   (P)  w_ij^RR + w_ij^II = Re(V_i conj V_j), one per pair of buses that a line joins
    s   (P)  w_ji^RI - w_ij^RI = Im(V_i conj V_j)
    pF, qF, pT, qT (L each)  flows into the line at its from and its to end
    pG, qG (G each)  generation

The products w enter (D.2) through these sums only. **Demand is in no constraint.** It enters the
balance residuals s_i = a_i'x + d_i of (D.2b) and (D.2c), which the objective (D.2a) squares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import coo_array, csr_array, diags_array, eye_array, vstack

from taciturn.typing import HostArray
from taciturn_power.grids.network import Network, admittance


@dataclass(frozen=True)
class Layout:
    """The positions of each kind of variable."""

    buses: int
    pairs: int
    lines: int
    generators: int

    @property
    def size(self) -> int:
        """Number of variables, n."""
        return self.buses + 2 * self.pairs + 4 * self.lines + 2 * self.generators

    def cosine(self, pair: HostArray) -> HostArray:
        """Return the positions of c."""
        return self.buses + pair

    def sine(self, pair: HostArray) -> HostArray:
        """Return the positions of s."""
        return self.buses + self.pairs + pair

    def flow(self, kind: int, line: HostArray) -> HostArray:
        """Return the positions of pF, qF, pT or qT (kind 0, 1, 2, 3)."""
        return self.buses + 2 * self.pairs + kind * self.lines + line

    def generation(self, kind: int, generator: HostArray) -> HostArray:
        """Return the positions of pG or qG (kind 0, 1)."""
        start = self.buses + 2 * self.pairs + 4 * self.lines
        return start + kind * self.generators + generator


@dataclass(frozen=True, eq=False)
class Cones:
    """Second-order cones of one kind and dimension k: constant + rows x lies in the k-cone.

    Cone j owns rows j k to j k + k - 1 and belongs to line `line[j]`.
    """

    rows: csr_array
    constant: Float[HostArray, " K"]
    line: Int[HostArray, " J"]
    dimension: int


@dataclass(frozen=True, eq=False)
class Relaxation:
    """Problem (D.2): min sum_i (a_i'x + d_i)^2 over the public convex set of the rest.

    - `balance`: `(2N, n)`: rows a_i; (D.2b) of all buses, then (D.2c) of all buses. Entries of
      flows and generation are +-1, those of W are shunts.
    - `equal`: `(4L, n)`: (D.2f) to (D.2i) as equal x = 0; row k L + l is flow k of line l.
    - `lower`, `upper`: `(n,)`: (D.2d), (D.2e); infinite where there is no bound.
    - `angle`, `angle_line`: (D.2k) as angle x <= 0, and the line to which each row belongs.
    - `cones`: (D.2j) where there is a limit, and (D.2l).
    - `pair`: `(L,)`: the pair of buses of every line.
    """

    network: Network
    layout: Layout
    balance: csr_array
    equal: csr_array
    lower: Float[HostArray, " n"]
    upper: Float[HostArray, " n"]
    angle: csr_array
    angle_line: Int[HostArray, " K"]
    cones: tuple[Cones, ...]
    pair: Int[HostArray, " L"]

    @property
    def demand(self) -> Float[HostArray, " B"]:
        """The private d, `(2N,)`: active demand of all buses, then reactive."""
        return self.network.demand.T.ravel()

    def objective(self, x: Float[HostArray, " n"], demand: Float[HostArray, " B"]) -> float:
        """Return (D.2a), the sum of squared balance residuals, per unit squared."""
        return float(np.sum((self.balance @ x + demand) ** 2))

    def violation(self, x: Float[HostArray, " n"]) -> float:
        """Return the largest violation of any public constraint at x, per unit.

        For (D.2f) to (D.2i) and (D.2k) it is the distance to the plane, since their coefficients,
        admittances, may be large.
        """
        worst = [np.abs(self.equal @ x) / _norms(self.equal), (self.angle @ x) / _norms(self.angle)]
        worst += [self.lower - x, x - self.upper]
        for cone in self.cones:
            inside = (cone.constant + cone.rows @ x).reshape(-1, cone.dimension)
            worst.append(np.linalg.norm(inside[:, 1:], axis=1) - inside[:, 0])
        return max(float(np.max(part, initial=0.0)) for part in worst)

    def flat(self) -> Float[HostArray, " n"]:
        """Return a public starting point: |V| midway, no angle, the flows that follow from these.

        Generation lies midway where it is bounded, at 0 otherwise.
        """
        layout, net = self.layout, self.network
        magnitude = net.voltage.mean(axis=1)
        x = np.zeros(layout.size)
        x[: layout.buses] = magnitude**2
        x[layout.cosine(self.pair)] = magnitude[net.ends].prod(axis=1)
        start = int(layout.flow(0, np.arange(1))[0])
        flows = slice(start, start + 4 * layout.lines)
        x[flows] = -(self.equal @ x)  # the coefficient of each flow in its own equation is 1
        lower, upper = self.lower[flows.stop :], self.upper[flows.stop :]
        bounded = np.isfinite(lower) & np.isfinite(upper)
        x[flows.stop :] = np.where(bounded, lower, 0) / 2 + np.where(bounded, upper, 0) / 2
        return x


def relax(network: Network) -> Relaxation:
    """Return (D.2) for a network."""
    ends = np.sort(network.ends, axis=1)
    pairs, pair = np.unique(ends, axis=0, return_inverse=True)
    layout = Layout(network.buses, len(pairs), network.lines, len(network.generator_bus))
    # row k picks variable k: constraints are sums of such rows
    pick = csr_array(eye_array(layout.size))
    # a line may run against its pair
    turned = np.where(network.ends[:, 0] == ends[:, 0], 1.0, -1.0)
    c, s = pick[layout.cosine(pair)], diags_array(turned) @ pick[layout.sine(pair)]
    limited = [np.flatnonzero(np.isfinite(side)) for side in network.angle.T]
    tangent = np.tan(np.where(np.isfinite(network.angle), network.angle, 0.0))
    angle = (diags_array(tangent[:, 0]) @ c - s, s - diags_array(tangent[:, 1]) @ c)
    lower, upper = _bounds(network, layout)
    return Relaxation(
        network=network,
        layout=layout,
        balance=_balance(network, layout, pick),
        equal=_flows(network, layout, pair, turned),
        lower=lower,
        upper=upper,
        angle=csr_array(vstack([angle[side][line] for side, line in enumerate(limited)])),
        angle_line=np.concatenate(limited),
        cones=_cones(network, layout, pick, pairs, pair),
        pair=pair,
    )


def _flows(network: Network, layout: Layout, pair: HostArray, turned: HostArray) -> csr_array:
    """Return (D.2f) to (D.2i): flow minus its expression in W, c and s."""
    y, line, one = admittance(network), np.arange(layout.lines), np.ones(layout.lines)
    c, s = layout.cosine(pair), layout.sine(pair)
    parts = (  # of every flow: the bus whose W it takes; coefficients of W, of c, of s
        (0, y.ff.real, y.ft.real, y.ft.imag),
        (0, -y.ff.imag, -y.ft.imag, y.ft.real),
        (1, y.tt.real, y.tf.real, -y.tf.imag),
        (1, -y.tt.imag, -y.tf.imag, -y.tf.real),
    )
    # zeros are kept: the digest of a plan is that of the matrix as it is stored
    rows, columns, values = [], [], []
    for kind, (end, of_w, of_c, of_s) in enumerate(parts):
        rows += [kind * layout.lines + line] * 4
        columns += [layout.flow(kind, line), network.ends[:, end], c, s]
        values += [one, -of_w, -of_c, -of_s * turned]
    where = (np.concatenate(rows), np.concatenate(columns))
    shape = (4 * layout.lines, layout.size)
    return csr_array(coo_array((np.concatenate(values), where), shape=shape))


def _norms(rows: csr_array) -> HostArray:
    squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.asarray(np.sqrt(squares))


def _balance(network: Network, layout: Layout, pick: csr_array) -> csr_array:
    line, generator = np.arange(layout.lines), np.arange(layout.generators)
    bus = csr_array(eye_array(layout.buses))
    start, end, at = (bus[k].T for k in (*network.ends.T, network.generator_bus))
    balance = [
        start @ pick[layout.flow(kind, line)]
        + end @ pick[layout.flow(kind + 2, line)]
        - at @ pick[layout.generation(kind, generator)]
        + diags_array(sign * network.shunt[:, kind]) @ pick[: layout.buses]
        for kind, sign in ((0, 1.0), (1, -1.0))  # active, reactive
    ]
    rows = csr_array(vstack(balance))
    rows.eliminate_zeros()
    return rows


def _bounds(network: Network, layout: Layout) -> tuple[HostArray, HostArray]:
    lower, upper = np.full(layout.size, -np.inf), np.full(layout.size, np.inf)
    lower[: layout.buses], upper[: layout.buses] = (network.voltage**2).T
    generator = np.arange(layout.generators)
    for kind in (0, 1):
        place = layout.generation(kind, generator)
        lower[place], upper[place] = network.generator_range[:, 2 * kind : 2 * kind + 2].T
    return lower, upper


def _cones(
    network: Network, layout: Layout, pick: csr_array, pairs: HostArray, pair: HostArray
) -> tuple[Cones, ...]:
    """Return (D.2j) at both ends, and (D.2l) once per pair, on the first of its lines."""
    limited, cones = np.flatnonzero(np.isfinite(network.limit)), []
    for kind in (0, 2) if len(limited) else ():
        p, q = (pick[layout.flow(part, limited)] for part in (kind, kind + 1))
        cones.append(_cone([csr_array(p.shape), p, q], network.limit[limited], limited))
    _, first = np.unique(pair, return_index=True)
    one, other, every = pick[pairs[:, 0]], pick[pairs[:, 1]], np.arange(len(pairs))
    parts = [(one + other) / 2, (one - other) / 2]
    parts += [pick[layout.cosine(every)], pick[layout.sine(every)]]
    return (*cones, _cone(parts, np.zeros(len(pairs)), first))


def _cone(parts: list[csr_array], least: HostArray, line: HostArray) -> Cones:
    """Return cones of which each takes a row of every part; `least` is added to the first."""
    count = len(line)
    order = np.arange(len(parts) * count).reshape(-1, count).T.ravel()
    constant = np.zeros(order.shape)
    constant[:: len(parts)] = least
    return Cones(csr_array(vstack(parts))[order], constant, line, len(parts))
