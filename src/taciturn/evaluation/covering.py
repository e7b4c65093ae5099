"""An account pays for training and evaluation at once: each record is asked in one of the two."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from taciturn.budget.charge import Charge, Events
from taciturn.engine import Plan, charge_of
from taciturn.errors import InputError
from taciturn.evaluation.asking import evaluation_plan
from taciturn.privacy import GaussianAnswer
from taciturn.privacy.mechanisms import LEAST_SCALE
from taciturn.proposal import Proposal


def check_covered(proposal: Proposal, training: Plan) -> None:
    """Raise `InputError` unless the charge of a training covers that of its evaluation, too.

    Nothing is asked of a proposal whose held-out records are asked nothing.

    Notes
    -----
    **Guarantee.** An account adds up what every run may reveal about any one record. A record is in
    one of the two parts (`taciturn.evaluation.of_disjoint_parts`), so what the two runs reveal of
    it is at most the larger of their costs, agent by agent: the charge of the training, if no
    answer of the evaluation has less noise than all of the agent's answers in training together.
    """
    if proposal.evaluation is None or not proposal.evaluation.asked:
        return
    first = charge_of(training)
    last = charge_of(evaluation_plan(proposal, training))
    answering = [agent for agent, count in enumerate(proposal.evaluation.counts) if count]
    pairs = [(first.messages, last.messages)]
    if last.summed is not None:
        pairs.append((first.summed or (), last.summed))
    covered = all(
        len(charged) > max(answering) and _at_most([charged[k] for k in answering], asked)
        for charged, asked in pairs
    )
    # an account counts the numbers that are released, on lattices of at least this fineness
    if not (covered and last.values <= first.values and last.least_scale >= LEAST_SCALE):
        raise InputError(
            "the account is charged for the training, and the evaluation needs more than that; "
            "leave --evaluate or --account out, train in more rounds, or let all agents answer in "
            "each of them"
        )


def larger_of(training: Charge, evaluation: Charge) -> Charge:
    """Return the charge of an agent's training together with its answer to the last question.

    Parameters
    ----------
    training, evaluation
        Of one agent each.

    Raises
    ------
    InputError
        If one of the two is more than single Gaussian answers.

    Notes
    -----
    **Guarantee.** As for `check_covered`: a record is in one of the two, so what they reveal of it
    is at most the larger of their costs. It is taken for each observer, for how many numbers are
    released and for how fine their lattice is.
    """
    summed = None  # an observer of sums is then charged as one of messages
    if training.summed is not None and evaluation.summed is not None:
        summed = _larger(training.summed, evaluation.summed)
    return dataclasses.replace(
        training,
        messages=_larger(training.messages, evaluation.messages),
        summed=summed,
        values=max(training.values, evaluation.values),
        least_scale=min(training.least_scale, evaluation.least_scale),
    )


def _larger(one: Sequence[Events], other: Sequence[Events]) -> tuple[Events, ...]:
    pairs = zip(one, other, strict=True)
    return tuple(min(both, key=_multiplier) for both in pairs)


def _at_most(charged: Sequence[Events], asked: Sequence[Events]) -> bool:
    """Whether every agent's single Gaussian answer has at least the noise that was charged."""
    pairs = zip(charged, asked, strict=True)
    return all(_multiplier(mine) <= _multiplier(last) for mine, last in pairs)


def _multiplier(events: Events) -> float:
    """Return the multiplier of a single Gaussian answer; infinite without any."""
    if not events:
        return math.inf
    (event, count), *others = events
    if others or count != 1 or not isinstance(event, GaussianAnswer):
        raise InputError(
            "an account holds a training together with its evaluation where all noise is Gaussian "
            "and nothing is sampled; leave --evaluate or --account out"
        )
    return event.multiplier
