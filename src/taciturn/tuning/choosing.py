"""The choice: every agent picks a candidate by its held-out records, and the most picks win."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from taciturn.noise import Label, Stream, exponential_choice
from taciturn.oracles import ClippedErrors, Point, Tally
from taciturn.problems import Shard, Shards
from taciturn.problems.shards import for_exact_sums
from taciturn.typing import Array, HostArray


def errors_of(
    question: Tally | ClippedErrors, model: Float[HostArray, "D *K"], shards: Shards
) -> tuple[Fraction, ...]:
    """Return each agent's number of wrong labels, or sum of clipped absolute errors, exactly.

    Notes
    -----
    **Guarantee.** A sum with a term in [0, 1] for each record, or person, that depends on it alone
    (`taciturn.oracles.Tally`, `taciturn.oracles.ClippedErrors`).
    """
    query = Point(jnp.asarray(model, jnp.float64))
    stacked = for_exact_sums(shards)
    counts = jnp.asarray(shards.counts, jnp.float64)
    values = np.asarray(_answers(question, query, stacked, counts), np.float64)
    if isinstance(question, Tally):
        return tuple(sum(map(Fraction, row[_wrong(question)]), Fraction(0)) for row in values)
    return tuple(Fraction(float(row[0])) for row in values)


@jax.jit
def _answers(question: Tally | ClippedErrors, query: Point, stacked: Shard, counts: Array) -> Array:
    """Return the answers of all agents without noise."""
    answers: Array = jax.vmap(lambda shard, count: question.exact(shard, count, query))(
        stacked, counts
    )
    return answers


def _wrong(question: Tally) -> HostArray:
    """Return which cells are of records whose label is not the predicted one."""
    where = np.indices(question.shape).reshape(len(question.shape), -1)
    if question.classes == 2:
        return np.asarray(where[0] != (where[1] >= question.bins // 2))
    return np.asarray(where[0] != where[1])


def choose(costs: Sequence[Sequence[Fraction]], rate: float, stream: Stream) -> tuple[int, ...]:
    """Return every agent's pick by the exponential mechanism on its own errors.

    Parameters
    ----------
    costs
        For each candidate the errors of each agent.
    rate
        As in the plan.

    Notes
    -----
    **Guarantee.** A record is in the errors of one agent. What that agent says is private by
    `taciturn.privacy.mu_of_choice`, whoever reads it; the others' picks do not depend on the
    record.
    """
    stream.claim()
    agents = len(costs[0])
    return tuple(
        exponential_choice(stream, Label(0, agent, 0), [of[agent] for of in costs], rate)
        for agent in range(agents)
    )


def picked(picks: Sequence[int], units: Sequence[int], candidates: int) -> int:
    """Return the candidate with the most picks, each weighed by how many records its agent asked.

    The weights are public; of several with as many the first wins.

    Examples
    --------
    >>> picked([1, 0, 1], [10, 10, 10], 3), picked([0, 1], [10, 30], 2), picked([1, 0], [5, 5], 2)
    (1, 1, 0)
    """
    votes = np.bincount(np.asarray(picks), np.asarray(units, np.float64), candidates)
    return int(np.argmax(votes))


def stream_of(seed: int | None) -> Stream:
    """Return fresh random numbers, or those of a reproduction."""
    if seed is None:
        return Stream.fresh()
    return Stream(hashlib.sha256(f"taciturn.tune {seed}".encode()).digest())
