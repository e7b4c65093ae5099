"""Ryu and Kim 2023, section 6.1.1: the gradient of power flow has sensitivity 2 beta."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from taciturn.kernel.privacy import epsilon_of
from taciturn.kernel.questions import Point, TargetGradient
from taciturn.kernel.records import Shard
from taciturn.typing import Array
from taciturn_papers.claims.claim import Claim, Finding, Verdict
from taciturn_power import Grid, bundled_case, chosen_zones, grid, network, relax

BETA, DELTA, EPSILON = 0.01, 1e-2, 1.0


def largest_moves(made: Grid, beta: float) -> list[tuple[float, float]]:
    """Return, for every zone, the largest change of its gradient in the 2-norm and in the 1-norm.

    By brute force: every demand of the zone is moved by `beta`, one at a time, and the gradient of
    (6.1), sum_i (a_i'z + d_i)^2, is computed on both data sets at the same state.
    """
    state = made.relaxation.flat()
    found = []
    for zone, part in enumerate(made.parts):
        shard = made.shards.shard(zone)
        query = Point(jnp.pad(state[part.columns], (0, made.spec.shape[0] - len(part.columns))))
        moves = np.asarray(_moves(shard, query, jnp.arange(len(part.rows)), beta))
        found.append((float(moves[:, 0].max()), float(moves[:, 1].max())))
    return found


@jax.jit
def _moves(
    shard: Shard, query: Point, records: Int[Array, "K"], beta: float | Float[Array, ""]
) -> Float[Array, "K 2"]:
    oracle, count = TargetGradient(), jnp.ones(())

    def one(record: Array) -> Array:
        moved = dataclasses.replace(shard, targets=shard.targets.at[record].add(-beta))
        # the oracle's is the gradient of half the sum of squares
        change = 2 * (oracle.exact(moved, count, query) - oracle.exact(shard, count, query))
        return jnp.stack([jnp.linalg.norm(change), jnp.sum(jnp.abs(change))])

    found: Array = jax.vmap(one)(records)
    return found


def exact_epsilon(ratio: float) -> float:
    """Return the exact epsilon at `DELTA` of one answer whose sensitivity is `ratio` times claimed.

    The noise is that of Table 1: sqrt(2 ln(1.25/delta)) / epsilon times the claimed sensitivity.
    """
    return float(epsilon_of(DELTA, ratio * EPSILON / math.sqrt(2 * math.log(1.25 / DELTA))))


def decide() -> Finding:
    """Return the finding: what one demand really moves on case 118, beside 2 beta."""
    net = network(bundled_case("case118"))
    made = grid(relax(net), chosen_zones(net, None))
    rows = tuple(
        (float(zone), two / (2 * BETA), one / (2 * BETA), exact_epsilon(two / (2 * BETA)))
        for zone, (two, one) in enumerate(largest_moves(made, BETA), 1)
    )
    worst = max(row[1] for row in rows)
    verdict: Verdict = "holds" if worst <= 1 + 1e-9 else "does not hold"
    return Finding(
        verdict=verdict,
        summary=(
            f"On case118 in three zones, one demand that moves by beta moves the gradient by up to "
            f"{worst:.3f} times 2 beta in the 2-norm and {max(row[2] for row in rows):.0f} times "
            f"in the 1-norm. An answer with the noise published for epsilon {EPSILON:g} at delta "
            f"{DELTA:g} costs {max(row[3] for row in rows):.2f}."
        ),
        columns=("zone", "2-norm / 2 beta", "1-norm / 2 beta", "exact epsilon of one answer"),
        rows=rows,
    )


CLAIM = Claim(
    id="ryu2023/opf-sensitivity",
    paper="Ryu and Kim 2023, differentially private linearised ADMM, section 6.1.1",
    verdict="does not hold",
    statement=(
        "The objective sum_i (a_i'z + d_i)^2 of a zone has a gradient of 1-norm and 2-norm "
        "sensitivity 2 beta between demands that differ by at most beta in one entry."
    ),
    reasoning=(
        "The gradient is 2 sum_i a_i (a_i'z + d_i); one demand that moves by beta moves it by "
        "2 beta a_i, whose norm is 2 beta |a_i|. The row a_i has an entry of size 1 for every flow "
        "and every generator at bus i, so |a_i| is the root of their number (plus shunts), which "
        "is 13 at bus 49. The published figure leaves |a_i| out: it is the sensitivity of one "
        "residual. Asking for the residuals, or for the demand, makes a figure like it true."
    ),
    decide=decide,
)
