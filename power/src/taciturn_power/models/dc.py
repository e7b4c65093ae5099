r"""Optimal power flow in the DC model: lossless, linear, voltages of 1 per unit.

With angles theta, generation p (per unit), susceptances b_l = 1 / (x_l tau_l) and demand d,

    min  sum_g c_g(p_g)
    s.t. sum_{l out of i} f_l - sum_{l into i} f_l = sum_{g at i} p_g - d_i - g_i^s   for every bus,
         f_l = b_l (theta_from - theta_to - shift_l),
         low_l <= f_l <= high_l,        p_g^min <= p_g <= p_g^max,

as in MATPOWER (rundcopf): resistances and charging are omitted, and shunt conductances are fixed
demand. The rating of a line and the limits on its angle difference, which in this model limit the
flow, combine to one range of the flow.

**Chance constraints** (after Dvorkin, Fioretto, Van Hentenryck, Pinson and Kazempour,
arXiv 2004.03921). Demand is known with noise: y = d + n. At the true demand the network is out of
balance by xi = 1'n, and generator g moves from p_g to p_g - alpha_g xi, an affine policy with
sum_g alpha_g = 1, alpha >= 0. Let X be the matrix of flows per injected power (for any slack bus,
with rows centred, X 1 = 0), C the incidence of generators on buses, and h = X C alpha. Line l then
carries

    f_l - h_l xi + (X n)_l.

For a multiplier z, every dispatch is tightened to be feasible on the event

    E = { |xi| <= z |sigma|   and   |(X n)_l| <= z s_l  for every limited line l },

with s_l^2 = sum_i X_li^2 sigma_i^2. With the reserve R = z |sigma|, beta_g = alpha_g R and
phi_l = h_l R the constraints are linear:

    p_g + beta_g <= p_g^max,    p_g - beta_g >= p_g^min,    sum_g beta_g = R,
    f_l + |phi_l| + z s_l <= high_l,    f_l - |phi_l| - z s_l >= low_l.

**Guarantee of service.** n_i is Gaussian with standard deviation sigma_i, so E has probability
at least (2 Phi(z) - 1)^(1 + L) with L limited lines: xi and every (X n)_l are jointly Gaussian, and
symmetric slabs of a Gaussian vector are positively associated (Sidak 1967). z is chosen so that
this is 1 - eta. E is an event of the noise alone. On E every limit holds for any dispatch and
policy computed from y, however they depend on it. So for every true demand d, fixed before the
noise is drawn, the probability **over the noise** that a dispatch is returned which does not serve
d within all limits *at once* is at most eta, in this model; no distribution of the demand is
assumed. Answers without a feasible dispatch are reported and do not count as violations. Given the
answers, the same probability holds under a flat prior on the demand. (For a policy fixed before the
draw, the root of the sum of squares of phi_l and z s_l would suffice; their sum allows for a policy
that depends on the answers.)

The tightening itself reads public numbers only: it is post-processing of the answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.sparse import coo_array, csc_array, csr_array, diags_array
from scipy.sparse.linalg import splu
from scipy.special import ndtri

from taciturn import checks
from taciturn.errors import DataError, SolverError
from taciturn.typing import HostArray
from taciturn_power.conic import Minimum, minimise_conic
from taciturn_power.grids.network import Network, in_solver_units
from taciturn_power.models.cost import Costs
from taciturn_power.models.dispatch import Dispatch, Rows, cost_rows, cost_terms, prices, variables

# the largest violation of a limit that is accepted
TOLERANCE_MW = 1e-3
# per unit; a narrower range is below the solver's accuracy
_LEAST_ROOM = 1e-6
_LOST = (
    "the cone solver found no dispatch for demands that have one; check that limits are of "
    "sensible size"
)


@dataclass(frozen=True, eq=False)
class DcModel:
    """A network in the DC model, per unit, with the costs of its generators. Public.

    - `reactance`, `incidence`: x tau; `(L, N)`: 1 at the from bus, -1 at the to bus.
    - `flows`, `offset`: The flow is flows theta - offset; the offset is susceptance times phase
      shift.
    - `low`, `high`: Limits of the flow; infinite if there is none.
    - `places`: `(N, G)`: C, 1 at the bus of the generator.
    """

    network: Network
    costs: Costs
    reactance: Float[HostArray, " L"]
    flows: csr_array
    incidence: csr_array
    offset: Float[HostArray, " L"]
    low: Float[HostArray, " L"]
    high: Float[HostArray, " L"]
    places: csr_array

    @property
    def limited(self) -> HostArray:
        """Which lines have a limit."""
        return np.flatnonzero(np.isfinite(self.low) | np.isfinite(self.high))


def dc_model(network: Network, costs: Costs) -> DcModel:
    """Return the DC model of a network, whose demand is not read."""
    if not len(network.generator_bus):
        raise DataError(
            f"{network.name}: no generator is in service, so there is nothing to dispatch; set the "
            "status of one (column 8 of mpc.gen) to 1"
        )
    reactance = network.impedance.imag * network.tap
    if np.any(reactance == 0):
        first = int(np.flatnonzero(reactance == 0)[0])
        raise DataError(
            f"{network.name}: row {first + 1} of the lines in service has x = 0, and the DC model "
            "divides by it; give it a small reactance, or take --model soc"
        )
    susceptance = 1 / reactance
    line, count = np.arange(network.lines), len(network.generator_bus)
    incidence = csr_array(
        (np.repeat([1.0, -1.0], network.lines), (np.tile(line, 2), network.ends.T.ravel())),
        shape=(network.lines, network.buses),
    )
    # a negative susceptance, of a series capacitor, exchanges the two limits of the angle
    across = susceptance[:, None] * (network.angle - network.shift[:, None])
    places = coo_array(
        (np.ones(count), (network.generator_bus, np.arange(count))), shape=(network.buses, count)
    )
    return DcModel(
        network,
        costs,
        reactance,
        csr_array(diags_array(susceptance) @ incidence),
        incidence,
        susceptance * network.shift,
        np.maximum(-network.limit, across.min(axis=1)),
        np.minimum(network.limit, across.max(axis=1)),
        csr_array(places),
    )


class State(NamedTuple):
    """Angles (0 at the first bus), flows, and the surplus of power at each bus."""

    angle: Float[HostArray, " N"]
    flow: Float[HostArray, " L"]
    left: Float[HostArray, " N"]


def state_at(model: DcModel, injected: Float[HostArray, " N"], *, shifted: bool = True) -> State:
    """Return the state at these injections, per unit, which must sum to 0.

    Without `shifted` all phase shifts are 0, as in differences of two states.
    """
    offset = model.offset if shifted else np.zeros(model.network.lines)
    laplacian = csc_array(model.incidence.T @ model.flows)
    whole = injected + model.incidence.T @ offset
    angle = np.concatenate([[0.0], splu(csc_array(laplacian[1:, 1:])).solve(whole[1:])])
    flow = model.flows @ angle - offset
    return State(angle, flow, injected - model.incidence.T @ flow)


def line_spread(model: DcModel, sigma: Float[HostArray, " N"]) -> Float[HostArray, " L"]:
    """Return s_l = (sum_i X_li^2 sigma_i^2)^(1/2) of every line, with the rows of X centred.

    X_l = b_l (e_from - e_to)'B^+ with the Laplacian B. Where B is joined by lines of positive and
    negative susceptance it need not be definite, but its rank is N - 1 wherever flows are defined.
    """
    laplacian = csc_array(model.incidence.T @ model.flows)
    inner = splu(csc_array(laplacian[1:, 1:])).solve(model.incidence.T.toarray()[1:])
    angles = np.vstack([np.zeros(model.network.lines), inner])
    centred = angles - angles.mean(axis=0)
    return np.asarray(
        1 / np.abs(model.reactance) * np.linalg.norm(sigma[:, None] * centred, axis=0)
    )


def realised(
    model: DcModel,
    dispatch: Dispatch,
    answered: Float[HostArray, " N"],
    demand: Float[HostArray, " N"],
) -> Realised:
    """Return a dispatch after recourse to the true demand (per unit); not private."""
    network = model.network
    imbalance = float(np.sum(answered - demand))
    power = dispatch.generation[:, 0] / network.base_mva - dispatch.share * imbalance
    flow = state_at(model, model.places @ power - demand - network.shunt[:, 0]).flow
    low, high = network.generator_range[:, :2].T
    beyond = [power - high, low - power, flow - model.high, model.low - flow]
    worst = float(np.max(np.concatenate(beyond)))
    base = network.base_mva
    return Realised(power * base, imbalance * base, worst * base, model.costs.of(power * base))


class Realised(NamedTuple):
    """A dispatch after recourse to the true demand by its affine policy.

    Generation in MW; xi, the total excess of the answers over the demand, MW; the largest violation
    of a limit, MW, negative if there is none; the cost in $/h.
    """

    generation: Float[HostArray, " G"]
    imbalance: float
    beyond: float
    cost: float

    @property
    def served(self) -> bool:
        """Whether the demand is met within all limits, up to 1 kW."""
        return self.beyond <= TOLERANCE_MW


class Tightening(NamedTuple):
    """The public tightening of the limits, per unit: R = z |sigma|, and z s_l of every line."""

    multiplier: float
    reserve: float
    margin: Float[HostArray, " L"]


def multiplier_of(eta: float, limited_lines: int) -> float:
    """Return z with (2 Phi(z) - 1)^(1 + L) = 1 - eta.

    Examples
    --------
    >>> round(multiplier_of(0.05, 0), 4), round(multiplier_of(0.05, 186), 4)
    (1.96, 3.6385)
    """
    each = -np.expm1(np.log1p(-checks.below_one("eta", eta)) / (1 + limited_lines))
    return float(-ndtri(each / 2)) if eta > 0 else float("inf")


def tightening(model: DcModel, sigma: Float[HostArray, " N"], eta: float) -> Tightening:
    """Return the tightening for noise of standard deviation `sigma` at the buses, per unit."""
    return tightening_by(model, sigma, multiplier_of(eta, len(model.limited)))


def tightening_by(model: DcModel, sigma: Float[HostArray, " N"], multiplier: float) -> Tightening:
    """Return the tightening by this multiplier of the noise."""
    reserve = multiplier * float(np.linalg.norm(sigma))
    return Tightening(multiplier, reserve, multiplier * line_spread(model, sigma))


def shares(network: Network, reserve: Float[HostArray, " G"]) -> Float[HostArray, " G"]:
    """Return alpha, proportional to reserves, or, without reserves, to the widths of the ranges."""
    weight = reserve
    if not np.sum(reserve) > 0:
        width = network.generator_range[:, 1] - network.generator_range[:, 0]
        finite = np.isfinite(width)
        weight = np.where(finite, width, np.max(width, initial=1.0, where=finite))
    total = float(np.sum(weight))
    return weight / total if total > 0 else np.full(len(weight), 1 / len(weight))


class Settled(NamedTuple):
    """The state at generation that meets demand exactly; per unit.

    `moved` holds the flows phi that the whole reserve causes; 0 without chance constraints.
    """

    power: Float[HostArray, " G"]
    angle: Float[HostArray, " N"]
    flow: Float[HostArray, " L"]
    moved: Float[HostArray, " L"]


def settled(
    model: DcModel,
    power: Float[HostArray, " G"],
    share: Float[HostArray, " G"],
    demand: Float[HostArray, " N"],
    tight: Tightening | None,
) -> Settled:
    """Return the state at this generation, after `share` has met the remaining demand.

    The accuracy of an interior-point solution is relative, but the guarantee of service is in MW.
    So every inequality on which it rests is checked here, with flows computed from generation and
    demand.

    Raises `SolverError` if a generator with its reserve, or a line with its margin, exceeds its
    limit by more than 1 kW (p_g -+ alpha_g R, f_l -+ |phi_l| -+ z s_l), or the balance of a bus is
    off by more.
    """
    network = model.network
    load = demand + network.shunt[:, 0]
    power = power + share * (np.sum(load) - np.sum(power))
    angle, flow, left = state_at(model, model.places @ power - load)
    reserve, margin, moved = np.zeros(len(power)), np.zeros(len(flow)), np.zeros(len(flow))
    if tight is not None:
        reserve = tight.reserve * share
        unshifted = model.places @ reserve - tight.reserve / network.buses
        moved = state_at(model, unshifted, shifted=False)[1]
        margin = tight.margin + np.abs(moved)
    low, high = network.generator_range[:, :2].T
    beyond = (
        power + reserve - high,
        low - power + reserve,
        flow + margin - model.high,
        model.low - flow + margin,
        np.abs(left),
    )
    worst = float(np.max(np.concatenate(beyond))) * network.base_mva
    if not worst <= TOLERANCE_MW:  # NaN included
        raise SolverError(
            f"{network.name}: the dispatch that the cone solver found is {worst:.3g} MW off a "
            "limit or a balance; check that reactances, limits and costs are of sensible size"
        )
    return Settled(power, angle, flow, moved)


def solve_dc(
    model: DcModel, demand: Float[HostArray, " N"], tight: Tightening | None = None
) -> Dispatch | None:
    """Return the cheapest dispatch for these demands (per unit); None if there is none.

    With chance constraints the expected cost is minimised, as in Dvorkin et al.: generator g moves
    by alpha_g xi, whose variance adds c2_g (beta_g / z)^2 to a quadratic cost.

    Raises `SolverError` if the solver misses its accuracy, or its result violates a limit
    (`settled`).
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
    """Return a multiplier z with a feasible dispatch, 1 % below the largest; None if there is none.

    The constraints are linear in z, so this is one linear program.
    """
    model, demand, factor = _in_solver(model, demand)
    one = tightening_by(model, factor * sigma, 1.0)
    found = _Program(model, demand, reserving=True).widest(one)
    return None if found is None else 0.99 * max(found, 0.0)


def restored(
    model: DcModel, demand: Float[HostArray, " N"]
) -> tuple[Dispatch, Float[HostArray, " N"]] | None:
    """Return a dispatch for the nearest demands that have one, and these demands.

    As Mak, Fioretto and Van Hentenryck (arXiv 1910.04250) restore an obfuscated network: first the
    change of the demands, least in the sum of squares, that makes the problem feasible; then the
    cheapest dispatch for the changed demands, each up to 1 kW. It has no prices, since more demand
    could not be met. None if no demand can be served. Raises `SolverError` as `solve_dc`.
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
    """Return model and demand per unit of the solver's base, and the factor of the demand.

    So the program of a network does not depend on the base of its file.
    """
    network = in_solver_units(model.network)
    factor = model.network.base_mva / network.base_mva
    scaled = model if factor == 1 else dc_model(network, model.costs)
    return scaled, factor * demand, factor


class _Program:
    """The constraints as rows in (theta, p, t, f) and, with reserves, (psi, phi, beta, R) too.

    Flows are variables, with x_l tau_l f_l = theta_from - theta_to - shift_l: the solver's accuracy
    is relative to the largest entry of a row, and in rows with b_l theta small powers would vanish
    beside the susceptance of a short line. psi are the angles of the flows phi that the reserve R
    causes. If demands may change, their changes are the last columns instead.
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
            # the first row follows from the others; without it the matrix has full rank
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
        """Return the least change of demands, in the sum of squares, with a feasible dispatch."""
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
        # without limits there is no largest reserve; 40 sigma is practically certain
        rows.below(total, 40 * one.reserve)
        found = minimise_conic(hessian, linear, rows.assembled(), rough=True)
        return None if found is None else float(found.x[-1] / one.reserve)

    def dispatch(self, found: Minimum, tight: Tightening | None) -> Dispatch:
        model, base = self.model, self.model.network.base_mva
        demand, priced = self.demand, prices(found, self.balance, base)
        if self.moves is not None:
            # changed demands have no prices: more demand would not be met
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
