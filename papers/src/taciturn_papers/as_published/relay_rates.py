"""Lemma 1 and the rate of Theorem 3 of Wang et al. 2024 as computed bounds, and iteration (6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from taciturn.network import Graph
from taciturn.typing import HostArray
from taciturn_papers.as_published.dp_recal import GradientOf, Prox, coupling


def activation_probabilities(graph: Graph) -> Float[HostArray, " A"]:
    """Return g of Lemma 1, (D^-1 L^2 D^-1 + 1 1')^-1 1.

    It solves L D^-1 g = 0, 1'g = 1, so that g_i = d_i / (2 m): the stationary law of the walk of
    Assumption 2. It is the law of a holder only if the first one is drawn from it, and never its
    law given the holder before.
    """
    adjacency = np.asarray(graph.adjacency().toarray(), float)
    degrees = adjacency.sum(axis=1)
    scaled = (np.diag(degrees) - adjacency) / degrees  # L D^-1
    g: HostArray = np.linalg.solve(scaled.T @ scaled + 1.0, np.ones(len(degrees)))
    return g


def central_step(
    gradient: GradientOf, prox: Prox, x: HostArray, copies: HostArray, duals: HostArray,
    alpha: float,
) -> tuple[HostArray, HostArray, HostArray]:  # fmt: skip
    """Return (x, y, lambda) after one step of (6), in which all agents take part.

    Parameters
    ----------
    copies, duals
        `(A, D)`.
    """
    agents = len(copies)
    beta = coupling(agents)
    half = duals + beta * (x - copies)
    model = prox(x - half.sum(axis=0))
    slopes = np.array([gradient(agent, copy) for agent, copy in enumerate(copies)])
    moved = copies - alpha * (slopes - half)
    return model, moved, half + beta * ((model - x) - (moved - copies))


@dataclass(frozen=True, eq=False)
class RelayRate:
    """Theorem 3 where its constants can be computed: quadratic f_i(y) = L_i y^2 / 2, r = 0, D = 1.

    There the saddle subdifferential of (3) is linear, M w with w = (lambda, x, y), and invertible
    if some L_i > 0. So it is metrically subregular everywhere, with modulus
    zeta = 1 / sigma_min(M); the solution 0 is unique; and, without noise, the theorem claims

        E_k |w^{k+1}|^2_W <= phi / (phi + 1) |w^k|^2_W,      W = Pi^-1 S,
        phi = (zeta (|Q| + |H - A|) + 1)^2 |W| |(H + A')^-1 S|^2 |S^-1|,

    the last S being that of Lemma 3. Pi has g of Lemma 1 for y and lambda, and 1 for x.

    Attributes
    ----------
    curvatures
        L_i.
    steps
        alpha_i.
    """

    graph: Graph
    curvatures: Float[HostArray, " A"]
    steps: Float[HostArray, " A"]

    @property
    def weights(self) -> Float[HostArray, " N"]:
        """Return the diagonal of W = Pi^-1 S, for (lambda, x, y)."""
        agents, g = self.graph.agents, activation_probabilities(self.graph)
        inverse = 1 / coupling(agents)
        found: HostArray = np.concatenate([inverse / g, [1.0], 1 / (self.steps * g)])
        return found

    @property
    def phi(self) -> float:
        """Return phi of Theorem 3."""
        agents = self.graph.agents
        beta, one, ones = coupling(agents), np.eye(agents), np.ones((agents, 1))
        nothing, column = np.zeros((agents, agents)), np.zeros((agents, 1))
        zero, corner, row = np.zeros((1, 1)), np.ones((1, 1)), np.zeros((1, agents))
        steps = np.diag(1 / self.steps)
        curved = np.diag(self.curvatures)
        skew = np.block([[nothing, -ones, one], [ones.T, zero, row], [-one, column, nothing]])
        shift = np.block([
            [one / beta, column, nothing], [ones.T, corner, row], [-one, column, steps]
        ])  # fmt: skip
        scaled = np.diag(np.concatenate([np.full(agents, 1 / beta), [1.0], 1 / self.steps]))
        lemma = np.block([
            [one / beta, -ones, one], [-ones.T, corner, row], [one, column, steps - curved / 2]
        ])  # fmt: skip
        saddle = skew.copy()
        saddle[agents + 1 :, agents + 1 :] += curved
        zeta = 1 / np.linalg.svd(saddle, compute_uv=False)[-1]
        reach = zeta * (float(np.max(self.curvatures)) + _norm(shift - skew))
        turned = np.linalg.solve(shift + skew.T, scaled)
        largest = float(np.max(self.weights))
        return float((reach + 1) ** 2 * largest * _norm(turned) ** 2 * _norm(np.linalg.inv(lemma)))

    @property
    def factor(self) -> float:
        """Return phi / (phi + 1), the claimed factor of one hop."""
        return self.phi / (self.phi + 1)


def _norm(matrix: HostArray) -> float:
    return float(np.linalg.norm(matrix, 2))
