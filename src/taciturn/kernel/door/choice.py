"""A choice among released models by the exponential mechanism on exact errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from taciturn.kernel.door.opening import check_arithmetic, check_part, check_shards
from taciturn.kernel.noise import Label, Stream, exponential_choice
from taciturn.kernel.questions import ClippedErrors, Point, Tally
from taciturn.kernel.records import Origin, Shard, Shards, for_exact_sums
from taciturn.typing import Array, HostArray


def choose(
    candidates: Iterable[tuple[Tally | ClippedErrors, HostArray, Shards, Origin | None]],
    rate: float,
    stream: Stream,
) -> tuple[int, ...]:
    """Return every agent's pick by the exponential mechanism on its errors.

    `candidates`: the question, the model, the held-out records as features of that model, and the
    origin of the records it was trained on, which is checked to be disjoint.

    **Guarantee.** A record contributes to the errors of one agent only, whose pick has the mu of
    `taciturn.kernel.privacy.mu_of_choice`; the other picks do not depend on the record.
    """
    check_arithmetic()
    costs = []
    for question, model, shards, trained_on in candidates:
        check_part("held out", shards.origin, trained_on)
        costs.append(errors_of(question, model, shards))
    return pick(costs, rate, stream)


def pick(costs: Sequence[Sequence[Fraction]], rate: float, stream: Stream) -> tuple[int, ...]:
    """Return every agent's pick, given its errors by candidate."""
    stream.claim()
    agents = len(costs[0])
    return tuple(
        exponential_choice(stream, Label(0, agent, 0), [of[agent] for of in costs], rate)
        for agent in range(agents)
    )


def errors_of(
    question: Tally | ClippedErrors, model: Float[HostArray, "D *K"], shards: Shards
) -> tuple[Fraction, ...]:
    """Return each agent's number of wrong labels, or sum of clipped absolute errors, exactly.

    **Guarantee.** A sum over records, or persons, of terms in [0, 1], each depending on one of them
    (`taciturn.kernel.questions.Tally`, `taciturn.kernel.questions.ClippedErrors`).
    """
    check_shards(shards)
    query = Point(jnp.asarray(model, jnp.float64))
    stacked = for_exact_sums(shards)
    counts = jnp.asarray(shards.counts, jnp.float64)
    values = np.asarray(_answers(question, query, stacked, counts), np.float64)
    if isinstance(question, Tally):
        label, guess, _ = question.axes()
        return tuple(sum(map(Fraction, row[label != guess]), Fraction(0)) for row in values)
    return tuple(Fraction(float(row[0])) for row in values)


@jax.jit
def _answers(question: Tally | ClippedErrors, query: Point, stacked: Shard, counts: Array) -> Array:
    """Return the answers of all agents without noise."""
    answers: Array = jax.vmap(lambda shard, count: question.exact(shard, count, query))(
        stacked, counts
    )
    return answers
