"""All agents' records in one table, for references alone; agents never compute so."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Shaped

from tacit.problems.problem import Problem
from tacit.problems.shards import Shards
from tacit.typing import Array, Scalar


class Flat(eqx.Module):
    """n records in float64 with weights 1 / (A m_i), so that the data part is a weighted sum."""

    features: Float[Array, "n D"]
    targets: Shaped[Array, "n"]
    weights: Float[Array, "n"]


def flatten(shards: Shards) -> Flat:
    """Return the unmasked records of all agents."""
    real = np.asarray(shards.stacked.mask) > 0
    shares = 1 / (shards.agents * np.asarray(shards.counts, np.float64))
    return Flat(
        features=jnp.asarray(np.asarray(shards.stacked.features)[real], jnp.float64),
        targets=jnp.asarray(np.asarray(shards.stacked.targets)[real]),
        weights=jnp.asarray(np.broadcast_to(shares[:, None], real.shape)[real]),
    )


def data_value(problem: Problem, flat: Flat, w: Float[Array, "D *K"]) -> Float[Array, ""]:
    """Return (1/A) sum_i f_i(w)."""
    return jnp.dot(flat.weights, problem.loss.value(flat.features @ w, flat.targets))


def data_gradient(problem: Problem, flat: Flat, w: Float[Array, "D *K"]) -> Float[Array, "D *K"]:
    """Return the gradient of (1/A) sum_i f_i."""
    coefficients = problem.loss.coefficient(flat.features @ w, flat.targets)
    weights = flat.weights.reshape((-1,) + (1,) * (coefficients.ndim - 1))
    return flat.features.T @ (weights * coefficients)


@jax.jit
def objective(problem: Problem, flat: Flat, w: Float[Array, "D *K"]) -> Float[Array, ""]:
    """Return F(w), the constraint not included."""
    return data_value(problem, flat, w) + problem.regulariser.value(w)


@jax.jit
def prox_gradient_residual(
    problem: Problem, flat: Flat, w: Float[Array, "D *K"], curvature: Scalar
) -> tuple[Float[Array, "D *K"], Float[Array, ""]]:
    """Return x+ = prox(w - grad / L, 1 / L) and |G| = L |w - x+|."""
    step = 1 / curvature
    moved = problem.prox(w - step * data_gradient(problem, flat, w), step)
    return moved, curvature * jnp.linalg.norm((w - moved).ravel())


def gram(flat: Flat) -> Float[Array, "D D"]:
    """Return X' diag(weights) X."""
    return (flat.features.T * flat.weights) @ flat.features


def smoothness(problem: Problem, flat: Flat) -> float:
    """Return L, the loss's smoothness times the largest eigenvalue of X' diag(weights) X."""
    rows = flat.features * jnp.sqrt(flat.weights)[:, None]
    wide = rows.shape[0] < rows.shape[1]
    product = rows @ rows.T if wide else rows.T @ rows
    largest = float(np.linalg.eigvalsh(np.asarray(product))[-1])
    return problem.loss.smoothness * max(largest, float(np.finfo(np.float64).tiny)) * (1 + 1e-12)
