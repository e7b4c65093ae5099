"""DECOR: gossip on gradients with pairwise noise that cancels between neighbours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from taciturn.checks import at_least, positive
from taciturn.errors import InputError
from taciturn.network import Graph, Mixing
from taciturn.typing import HostArray

MOST_COALITIONS = 20_000
_RATIOS = (0.0, *(2.0**k for k in range(-3, 11)))

Gradients = Callable[[HostArray], HostArray]  # of models (A, D): each agent's at its own
Prox = Callable[[HostArray, float], HostArray]


@dataclass(frozen=True, eq=False)
class CorrelatedNoise:
    r"""The noise of DECOR (Allouah et al. 2024, "The Privacy Power of Correlated Noise").

    In every round agent i adds to its gradient

                v_i + sum_(j ~ i) +-v_ij,      v_i ~ N(0, s^2 I),      v_ij ~ N(0, tau^2 I),

    where neighbours i < j draw v_ij from a shared seed, with a plus at i and a minus at j. Each
    coordinate has covariance Sigma = s^2 I + tau^2 L over the agents, L the graph's Laplacian.

    Attributes
    ----------
    local, pair
        s and tau, in units of a gradient.

    Raises
    ------
    InputError
        If s is not above 0, or tau is below 0 or not finite.
    """

    graph: Graph
    local: float
    pair: float

    def __post_init__(self) -> None:
        positive("local", self.local)
        if not (self.pair >= 0 and math.isfinite(self.pair)):
            raise InputError(f"pair is {self.pair}; it must be finite and at least 0")

    def covariance(self, colluders: tuple[int, ...] = ()) -> Float[HostArray, "H H"]:
        """Return Sigma of the honest agents' noise, after colluders subtract what they know."""
        honest = [one for one in range(self.graph.agents) if one not in colluders]
        among = self.graph.adjacency().toarray()[np.ix_(honest, honest)]
        laplacian = np.diag(among.sum(axis=1)) - among
        covariance: HostArray = self.local**2 * np.eye(len(honest)) + self.pair**2 * laplacian
        return covariance

    def mu(
        self, sensitivity: Float[HostArray, " A"], rounds: int, *, colluders: int
    ) -> Float[HostArray, " A"]:
        r"""Return the cost of `rounds` answers of each agent against k colluders, as Gaussian mu.

        Parameters
        ----------
        sensitivity
            The largest change of each agent's gradient by one record, in the l2 norm, at any point.
        colluders
            k: agents that read every message and share what they know. A single participant is k =
            1.

        Raises
        ------
        InputError
            If k is not below A - 1, or there are more than `MOST_COALITIONS` coalitions.

        Notes
        -----
        **Guarantee.** A coalition S without agent i knows v_j and v_jl of its members j. The rest
        of the honest agents' noise, their v_j and the v_jl among them, is independent of what it
        knows, with the covariance Sigma_S of the graph without S. From the messages, W, the steps
        and its members' models it can compute all noised gradients, and vice versa, so its view of
        a round is (g_j + noise_j) over the honest j. A record of agent i moves g_i alone, by at
        most Delta_i, whatever was seen before. Along that direction this is a shift of Delta_i e_i
        in noise of covariance Sigma_S, and no other direction moves: the round is mu-GDP with

            mu_i^2 = Delta_i^2 (Sigma_S^-1)_ii,

        and the mu_i^2 of T rounds add up, also if each round depends on what was seen (Dong, Roth,
        Su 2022, corollary 3.3). A record that moves g_i by Delta_i in one direction in every round
        attains it. Fewer colluders see less; the maximum over all S of k agents without i is taken.
        It holds for real numbers: here noise is drawn in floating point, so runs are only for
        comparison.
        """
        agents = self.graph.agents
        if not 0 <= at_least("colluders", colluders, 0) < agents - 1:
            raise InputError(
                f"there are {colluders} colluders among {agents} agents; pairwise noise hides an "
                "agent only if another one is honest"
            )
        if math.comb(agents, colluders) > MOST_COALITIONS:
            raise InputError(
                f"{colluders} colluders among {agents} agents are more than {MOST_COALITIONS} "
                "coalitions; name fewer"
            )
        worst = np.zeros(agents)
        for coalition in itertools.combinations(range(agents), colluders):
            honest = [one for one in range(agents) if one not in coalition]
            seen = np.diag(np.linalg.inv(self.covariance(coalition)))
            worst[honest] = np.maximum(worst[honest], seen)
        total: HostArray = np.asarray(sensitivity) * np.sqrt(rounds * worst)
        return total

    def drawn(
        self, draw: np.random.Generator, dimension: int
    ) -> tuple[Float[HostArray, "A D"], Float[HostArray, "E D"]]:
        """Return the noise of one round: that of each agent, and that of each pair."""
        local = self.local * draw.standard_normal((self.graph.agents, dimension))
        return local, self.pair * draw.standard_normal((len(self.graph.edges), dimension))

    def added(
        self, local: Float[HostArray, "A D"], pairs: Float[HostArray, "E D"]
    ) -> Float[HostArray, "A D"]:
        """Return what each agent adds to its gradient."""
        first, second = self.graph.edges.T
        total = local.copy()
        np.add.at(total, first, pairs)
        np.subtract.at(total, second, pairs)
        return total


def calibrated(
    mixing: Mixing,
    sensitivity: Float[HostArray, " A"],
    mu: float,
    rounds: int,
    *,
    colluders: int,
) -> CorrelatedNoise:
    """Return the noise that costs exactly mu, with tau / s chosen from public facts.

    For fixed tau / s, mu is inversely proportional to s. Of the ratios 0, 1/8, 1/4, ..., 1024 the
    one with the least variance of an agent's model is taken: the variance T s^2 / A of the mean
    after T steps, plus that of the stationary disagreement, the mean diagonal of
    C = W (C + Sigma) W on vectors of mean 0.
    """

    def scaled(ratio: float) -> CorrelatedNoise:
        unit = CorrelatedNoise(mixing.graph, 1.0, ratio)
        local = float(np.max(unit.mu(sensitivity, rounds, colluders=colluders))) / mu
        return replace(unit, local=local, pair=ratio * local)

    return min(map(scaled, _RATIOS), key=lambda noise: _spread(noise, mixing, rounds))


def _spread(noise: CorrelatedNoise, mixing: Mixing, rounds: int) -> float:
    agents = mixing.graph.agents
    values, vectors = np.linalg.eigh(mixing.matrix().toarray())
    turned = vectors.T @ noise.covariance() @ vectors
    factors = np.outer(values, values)[:-1, :-1]  # the last is 1, of the mean
    kept = turned[:-1, :-1] * factors / (1 - factors)
    return rounds * noise.local**2 / agents + float(np.trace(kept)) / agents


def decor(  # noqa: PLR0913 - what the method takes
    gradients: Gradients,
    prox: Prox,
    mixing: Mixing,
    noise: CorrelatedNoise,
    *,
    step: float,
    rounds: int,
    start: Float[HostArray, " D"],
    seed: int,
) -> Float[HostArray, "T D"]:
    r"""Return the mean of the agents' models after every round of DECOR.

    With W the mixing and g_i the gradients, clipped record by record:

        x_i <- prox( sum_j W_ij (x_j - eta (g_j(x_j) + noise_j)) ).

    The prox, for a nonsmooth regulariser, is not in the paper; it is public post-processing.

    Parameters
    ----------
    prox
        (v, step) -> the prox of step r, for each row of v.
    step
        eta.
    """
    draw = np.random.default_rng(seed)
    weights = mixing.matrix().toarray()
    models, means = np.tile(start, (mixing.graph.agents, 1)), []
    for _ in range(rounds):
        noised = gradients(models) + noise.added(*noise.drawn(draw, len(start)))
        models = prox(weights @ (models - step * noised), step)
        means.append(np.mean(models, axis=0))
    return np.array(means)
