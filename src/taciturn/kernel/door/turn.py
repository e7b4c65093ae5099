"""What is public about one question."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float, Int

from taciturn.typing import Array


class Turn(NamedTuple):
    """The public context of one question: a slice of the plan.

    Attributes
    ----------
    round, local
        Which round, and which question inside it.
    participation
        How often the agent took part before; equal to `round` where all do in every round.
    question
        The number of the oracle; -1 for a turn without a question.
    agent
        The agent that answers.
    scale, exponent
        Absolute scale of the noise on the answer; the step of the lattice of both is 2^exponent.
    values
        The algorithm's schedules at this turn.
    """

    round: Int[Array, "*q"]
    local: Int[Array, "*q"]
    participation: Int[Array, "*q"]
    question: Int[Array, "*q"]
    agent: Int[Array, "*q"]
    scale: Float[Array, "*q"]
    exponent: Int[Array, "*q"]
    values: dict[str, Float[Array, "*q"]]
