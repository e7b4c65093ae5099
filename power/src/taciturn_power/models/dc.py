r"""Optimal power flow in the DC model: lossless, linear, voltages of 1 per unit.

With angles theta, generation p (per unit), susceptances b_l = 1 / (x_l tau_l) and demand d,

    min  sum_g c_g(p_g)
    s.t. sum_{l out of i} f_l - sum_{l into i} f_l = sum_{g at i} p_g - d_i - g_i^s   for every bus,
         f_l = b_l (theta_from - theta_to - shift_l),
         low_l <= f_l <= high_l,        p_g^min <= p_g <= p_g^max,

as MATPOWER has it (rundcopf; `taciturn_power.models.dc_network`).

**Chance constraints** (after Dvorkin, Fioretto, Van Hentenryck, Pinson and Kazempour,
arXiv 2004.03921). Demand is known with noise: y = d + n. When the dispatch meets the true demand,
the network is out of balance by xi = 1'n, and generator g moves from p_g to p_g - alpha_g xi, an
affine policy with sum_g alpha_g = 1, alpha >= 0. With X the matrix of flows per power injected
(any slack: its rows centred, X 1 = 0), C the generators' places and h = X C alpha, line l then
carries

    f_l - h_l xi + (X n)_l.

For a multiplier z, every dispatch is tightened by what happens on the event

    E = { |xi| <= z |sigma|   and   |(X n)_l| <= z s_l  for every limited line l },

with s_l^2 = sum_i X_li^2 sigma_i^2. With the reserve R = z |sigma|, beta_g = alpha_g R and
phi_l = h_l R the constraints are linear:

    p_g + beta_g <= p_g^max,    p_g - beta_g >= p_g^min,    sum_g beta_g = R,
    f_l + |phi_l| + z s_l <= high_l,    f_l - |phi_l| - z s_l >= low_l.

**Guarantee of service.** n_i is Gaussian with standard deviation sigma_i, so E has probability
at least (2 Phi(z) - 1)^(1 + L) with L limited lines: xi and every (X n)_l are jointly Gaussian, and
symmetric slabs of a Gaussian vector are positively associated (Sidak 1967). z is chosen so that
this is 1 - eta. E speaks of the noise alone. On E every limit holds for whatever dispatch and
policy were computed from y, however they depend on it. So for every true demand d, fixed before
the noise is drawn, the probability **over the noise** that a dispatch is returned which does not
serve d within all limits *at once* is at most eta, in this model; no law of the demand is assumed.
That the answers leave no dispatch at all is told, and no breach. Given the answers, the same
number holds for a reader to whom all demands were equally likely before. (A policy that is fixed
before the draw could be tightened by the root of the squares of phi_l and z s_l; their sum is what
it costs that this one may depend on the answers.)

The tightening itself reads public numbers only: it is post-processing of the answers.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.sparse import csr_array, diags_array

from taciturn.errors import SolverError
from taciturn.typing import HostArray
from taciturn_power.conic import Minimum, minimise_conic
from taciturn_power.grids.network import in_solver
from taciturn_power.models.dc_network import (
    TOLERANCE_MW,
    DcModel,
    Tightening,
    dc_model,
    of_multiplier,
    settled,
    shares,
)
from taciturn_power.models.dispatch import Dispatch, Rows, cost_rows, cost_terms, prices, variables

# per unit; a narrower range is lost in the solver's accuracy
_LEAST_ROOM = 1e-6
_LOST = (
    "the cone solver found no dispatch for demands that have one; check that limits are of "
    "sensible size"
)


def solve_dc(
    model: DcModel, demand: Float[HostArray, " N"], tight: Tightening | None = None
) -> Dispatch | None:
    """Return the cheapest dispatch for these demands (per unit); None if there is none.

    With chance constraints the expected cost is minimised, as the anchor does: generator g moves by
    alpha_g xi, whose variance adds c2_g (beta_g / z)^2 to a quadratic cost.

    Raises `SolverError` if the solver stops short of its accuracy, or what it returns breaks a
    limit (`taciturn_power.models.dc_network.settled`).
    """
    model, demand, factor = _in_solver(model, demand)
    if tight is not None:
        tight = Tightening(tight.multiplier, factor * tight.reserve, factor * tight.margin)
    program = _Program(model, demand, reserving=tight is not None)
    found = program.minimised(tight)
    return None if found is None else program.dispatch(found, tight)


def widest(
    model: DcModel, demand: Float[HostArray, " N"], sigma: Float[HostArray, " N"]
) -> float | None:
    """Return a multiplier z of the noise that leaves a dispatch, within 1 % of the largest.

    It is found by one linear problem, since the constraints are linear in z. None if not even 0
    leaves one.
    """
    model, demand, factor = _in_solver(model, demand)
    one = of_multiplier(model, factor * sigma, 1.0)
    found = _Program(model, demand, reserving=True).widest(one)
    return None if found is None else 0.99 * max(found, 0.0)


def restored(
    model: DcModel, demand: Float[HostArray, " N"]
) -> tuple[Dispatch, Float[HostArray, " N"]] | None:
    """Return a dispatch where the demands leave none: for demands near them, returned beside it.

    What Mak, Fioretto and Van Hentenryck (arXiv 1910.04250) do to an obfuscated network: the
    released values are moved to where the problem has a solution. First the least move in the sum
    of squares is found, whatever it costs; then the cheapest dispatch for the demands so moved,
    each to 1 kW. It has no prices: more demand would not be met. None if no demand at all can be
    served.

    Raises `SolverError` as `solve_dc`.
    """
    model, demand, factor = _in_solver(model, demand)
    moved = _Program(model, demand, moving=True).nearest()
    if moved is None:
        return None
    program = _Program(model, demand, moving=True, moved=moved)
    found = program.minimised(None)
    if found is None:
        raise SolverError(_LOST)
    return program.dispatch(found, None), (demand + found.x[program.width :]) / factor


def _in_solver(model: DcModel, demand: HostArray) -> tuple[DcModel, HostArray, float]:
    """Return model and demand per unit of the solver's base, and what the latter was taken times.

    Fixed, so that the same network in MW is solved alike whatever base its file has.
    """
    network = in_solver(model.network)
    factor = model.network.base_mva / network.base_mva
    scaled = model if factor == 1 else dc_model(network, model.costs)
    return scaled, factor * demand, factor


class _Program:
    """The constraints as rows in (theta, p, t, f) and, with reserves, (psi, phi, beta, R) too.

    Flows are variables, with x_l tau_l f_l = theta_from - theta_to - shift_l: the solver's accuracy
    is relative to the largest number of a row, and rows in b_l theta would lose small powers beside
    the susceptance of a short line. psi are the angles of the flows phi that a whole reserve R
    causes. If demand may be moved, the last columns are by how much, instead.
    """

    def __init__(
        self,
        model: DcModel,
        demand: HostArray,
        *,
        reserving: bool = False,
        moving: bool = False,
        moved: HostArray | None = None,
    ) -> None:
        self.model, self.demand, self.moved = model, demand, moved
        network, self.terms = model.network, cost_terms(model.costs, model.network.base_mva)
        self.n, self.g, lines = network.buses, len(network.generator_bus), network.lines
        further = [self.n, lines, self.g, 1] if reserving else [self.n] if moving else []
        theta, self.p, self.t, self.f, *rest = variables(self.n, self.g, self.g, lines, *further)
        self.theta, self.reserves = theta, rest if reserving else None
        self.moves = rest[0] if moving else None
        self.size, self.width = theta.shape[1], theta.shape[1] - sum(further)
        self.beta = slice(self.size - 1 - self.g, self.size - 1)  # with reserves
        self.balance = slice(1, 1 + self.n)

    def _rows(self, per_reserve: HostArray | float, *, costs: bool = True) -> Rows:
        """Return all constraints; a line's margin is `per_reserve` times R."""
        model, network, rows = self.model, self.model.network, Rows()
        reactance, meeting = diags_array(model.reactance), model.incidence.T
        rows.equal(self.theta[:1], 0.0)
        met = meeting @ self.f - model.places @ self.p
        load = network.shunt[:, 0] + self.demand
        rows.equal(met if self.moves is None else met + self.moves, -load)
        rows.equal(reactance @ self.f - model.incidence @ self.theta, -network.shift)
        low, high = network.generator_range[:, :2].T
        fixed, free = np.flatnonzero(low == high), np.flatnonzero(low != high)
        up, down, flows, room = self.p, -self.p, [self.f], csr_array(self.f.shape)
        if self.reserves is not None:
            psi, phi, beta, total = self.reserves
            rows.equal(psi[:1], 0.0)
            rows.equal(reactance @ phi - model.incidence @ psi, 0.0)
            # one row follows from the others; it is left out to keep the matrix of full rank
            taken = csr_array(np.full((self.n, 1), 1 / self.n)) @ total
            rows.equal((meeting @ phi - model.places @ beta + taken)[1:], 0.0)
            rows.equal(csr_array(np.ones((1, self.g))) @ beta - total, 0.0)
            rows.equal(beta[fixed], 0.0)
            rows.below(-beta[free], 0.0)
            up, down, flows = up + beta, down + beta, [self.f + phi, self.f - phi]
            room = csr_array(np.broadcast_to(per_reserve, network.lines)[:, None]) @ total
        rows.equal(self.p[fixed], low[fixed])
        for power, bound in ((up, high), (down, -low)):
            used = free[np.isfinite(bound[free])]
            rows.below(power[used], bound[used])
        for sign, bound in ((1.0, model.high), (-1.0, -model.low)):
            used = np.flatnonzero(np.isfinite(bound))
            for flow in flows:
                rows.below((sign * flow + room)[used], bound[used])
        if costs:
            cost_rows(rows, self.terms, self.p, self.t)
        else:
            rows.equal(self.t, 0.0)
        return rows

    def minimised(self, tight: Tightening | None) -> Minimum | None:
        hessian, linear = np.zeros((2, self.size))
        costly = slice(self.n, self.n + 2 * self.g)
        hessian[costly], linear[costly] = self.terms.hessian, self.terms.linear
        rows = self._rows(0.0 if tight is None else tight.margin / tight.reserve)
        if tight is not None and self.reserves is not None:
            hessian[self.beta] = self.terms.hessian[: self.g] / tight.multiplier**2
            rows.equal(self.reserves[-1], tight.reserve)
        if self.moved is not None and self.moves is not None:
            room = max(TOLERANCE_MW / self.model.network.base_mva, _LEAST_ROOM)
            rows.below(self.moves, room + self.moved)
            rows.below(-self.moves, room - self.moved)
        return minimise_conic(hessian, linear, rows.assembled())

    def nearest(self) -> HostArray | None:
        """Return the least move of demands, in the sum of squares, that leaves a dispatch."""
        hessian, linear = np.zeros((2, self.size))
        hessian[self.width :] = 1.0
        found = minimise_conic(hessian, linear, self._rows(0.0, costs=False).assembled())
        return None if found is None else found.x[self.width :]

    def widest(self, one: Tightening) -> float | None:
        """Return the largest R over that of multiplier 1."""
        hessian, linear = np.zeros((2, self.size))
        linear[-1] = -1.0
        rows, total = self._rows(one.margin / one.reserve), variables(self.size - 1, 1)[1]
        rows.below(-total, 0.0)
        # a network without limits would have no largest reserve; 40 sigma is certainty
        rows.below(total, 40 * one.reserve)
        found = minimise_conic(hessian, linear, rows.assembled(), rough=True)
        return None if found is None else float(found.x[-1] / one.reserve)

    def dispatch(self, found: Minimum, tight: Tightening | None) -> Dispatch:
        model, base = self.model, self.model.network.base_mva
        demand, priced = self.demand, prices(found, self.balance, base)
        if (
            self.moves is not None
        ):  # a demand is not met but moved: nothing says what more of it would cost
            demand, priced = demand + found.x[self.width :], np.full(self.n, np.nan)
        reserve = np.zeros(self.g)
        if tight is not None:
            reserve = np.maximum(found.x[self.beta], 0)
        share = shares(model.network, reserve)
        state = settled(model, found.x[self.n : self.n + self.g], share, demand, tight)
        power, margin = state.power * base, np.zeros(model.network.lines)
        if tight is not None:
            reserve = tight.reserve * share
            margin = tight.margin + np.abs(state.moved)
        return Dispatch(
            model="dc",
            generation=np.stack([power, np.zeros(self.g)], axis=1),
            share=share,
            reserve=reserve * base,
            voltage=np.ones(self.n),
            angle=state.angle,
            flow=np.stack([state.flow, -state.flow], axis=1) * base,
            margin=margin * base,
            price=priced,
            cost=model.costs.of(power),
        )
