"""The mechanism of Dvorkin et al. (arXiv 2004.03921) formulated again from the paper's model.

An operator who knows all demands moves generation by M xi. Every line l has noise of its own,
xi_l ~ N(0, sigma_l^2), and carries exactly xi_l more of it: generators below the line fall by
xi_l in all, the others rise by as much. Dispatch and M are chosen together, at least expected cost,
so that each limit holds with probability 1 - eta of its kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cvxpy as cp
import numpy as np
from scipy.special import ndtri

from bench.feeder import Feeder, generation_cost, limits
from taciturn.typing import HostArray

# of generators, lines and voltages, as in the published script
PUBLISHED = (0.01, 0.10, 0.02)
# neighbours differ by this share of one demand, and noise is scaled to it
CHANGED = 0.1

# per unit: what an interior point leaves
LEAST = 1e-6

Gaussian = tuple[HostArray, HostArray]  # mean and covariance


@dataclass(frozen=True, eq=False)
class Randomised:
    """A dispatch g + M xi; `cost` is the expected one, per unit of power."""

    generation: HostArray
    moves: HostArray
    cost: float


def published_noise(grid: Feeder, epsilon: float, delta: float) -> HostArray:
    """Return sigma of every line: (2 ln(1.25 / delta))^(1/2) / epsilon times 10 % of the demand."""
    scale: HostArray = CHANGED * grid.active * np.sqrt(2 * np.log(1.25 / delta)) / epsilon
    return scale


def randomised(
    grid: Feeder, sigma: HostArray, etas: Sequence[float] = PUBLISHED
) -> Randomised | None:
    """Return the cheapest randomised dispatch; None if there is none."""
    rows, nodes = limits(grid), grid.nodes
    generation, moves = cp.Variable(nodes), cp.Variable((nodes, nodes))
    multiplier = -ndtri(np.asarray(etas))[rows.kind]
    slack = -(rows.offset + rows.of_generation @ generation + rows.of_demand @ grid.active)
    spread = cp.norm(rows.of_generation @ moves @ np.diag(sigma), axis=1)
    problem = cp.Problem(
        cp.Minimize(generation_cost(grid, generation, grid.active)),
        [slack >= cp.multiply(multiplier, spread), cp.diag(grid.below @ moves) == -1],
    )
    problem.solve(solver=cp.CLARABEL)
    if generation.value is None or moves.value is None:
        return None
    return Randomised(generation.value, moves.value, float(problem.value))


def drawn(made: Randomised, sigma: HostArray, draws: int) -> HostArray:
    """Return generation at nodes 1.. in so many draws, `(draws, N)`."""
    noise = sigma * np.random.default_rng(0).standard_normal((draws, len(sigma)))
    found: HostArray = made.generation + noise @ made.moves.T
    return found


def read_off(grid: Feeder, made: Randomised, sigma: HostArray, draws: int) -> float:
    """Return the most by which demands that are read off flows and generation miss the true ones.

    The flow into a node, less the flows out of it, plus what is generated there is its demand,
    whatever the noise.
    """
    generation = drawn(made, sigma, draws)
    flow = (grid.active - generation) @ grid.below.T
    into = np.linalg.inv(grid.below)
    return float(np.abs(flow @ into.T + generation - grid.active).max())


def flows(grid: Feeder, sigma: HostArray) -> Gaussian:
    """Return the law of the flows that an onlooker sees.

    Raises
    ------
    ValueError
        If there is no dispatch.
    """
    made = randomised(grid, sigma)
    if made is None:
        raise ValueError("no randomised dispatch at this demand and noise")
    moved = -grid.below @ made.moves * sigma
    return grid.below @ (grid.active - made.generation), moved @ moved.T


@dataclass(frozen=True)
class Leak:
    """delta, at an epsilon, between the flows at a demand and at one of which a node's changed.

    Attributes
    ----------
    own, single, all
        Of the line into that node, of the worst line, each seen alone, and of all flows together.
    moved
        The largest change of a mean flow over that of the demand.
    """

    own: float
    single: float
    all: float
    moved: float


def leak(
    grid: Feeder, node: int, change: float, *, epsilon: float, delta: float, own_noise: bool
) -> Leak:
    """Return what the flows tell of a change of one demand.

    Parameters
    ----------
    own_noise
        Whether noise is scaled to the demand that stands there, as published, which differs
        between neighbours; else that of the unchanged demand is kept.
    """
    active = grid.active.copy()
    active[node] += change
    other = replace(grid, active=active)
    sigma = published_noise(grid, epsilon, delta)
    after = published_noise(other, epsilon, delta) if own_noise else sigma
    one, two = flows(grid, sigma), flows(other, after)
    alone = [_either(_part(one, k), _part(two, k), epsilon) for k in range(grid.nodes)]
    moved = np.abs(one[0] - two[0]).max() / abs(change)
    return Leak(alone[node], max(alone), _either(one, two, epsilon), float(moved))


def _part(law: Gaussian, k: int) -> Gaussian:
    return law[0][[k]], law[1][np.ix_([k], [k])]


def _either(one: Gaussian, two: Gaussian, epsilon: float) -> float:
    return max(delta_between(one, two, epsilon), delta_between(two, one, epsilon))


def delta_between(one: Gaussian, two: Gaussian, epsilon: float, draws: int = 100_000) -> float:
    """Return E[(1 - exp(epsilon - L))_+] under the first law, L the log-likelihood ratio.

    From draws of a fixed seed; its standard error is at most 0.5 / draws^(1/2). Every covariance is
    taken larger by `LEAST`^2 in each direction: where it has no noise at all, that is left.
    """
    (mean, root), other = _rooted(one), _rooted(two)
    normal = np.random.default_rng(2).standard_normal((draws, len(mean)))
    points = mean + normal @ root.T
    ratio = _log_density((mean, root), points) - _log_density(other, points)
    return float(np.mean(-np.expm1(np.minimum(epsilon - ratio, 0))))


def _rooted(law: Gaussian) -> Gaussian:
    return law[0], np.linalg.cholesky(law[1] + LEAST**2 * np.eye(len(law[0])))


def _log_density(law: Gaussian, points: HostArray) -> HostArray:
    mean, root = law
    whitened = np.linalg.solve(root, (points - mean).T)
    density: HostArray = -0.5 * np.sum(whitened**2, axis=0) - np.log(np.diag(root)).sum()
    return density
