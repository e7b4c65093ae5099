"""The last question: its plan, its answer on held-out records, and what comes of it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from taciturn.algorithms import EvaluateModel
from taciturn.engine import Plan, plan, run
from taciturn.errors import PrivacyError
from taciturn.evaluation.composition import of_disjoint_parts
from taciturn.evaluation.labels import score_of_labels
from taciturn.evaluation.numbers import score_of_numbers
from taciturn.evaluation.score import PrivateScore, Scale
from taciturn.oracles import Tally
from taciturn.privacy import Certificate, Messages
from taciturn.problems import Devices, Origin, Shards, check_origins, facts_from
from taciturn.proposal import Proposal, evaluation_question
from taciturn.typing import HostArray


@dataclass(frozen=True)
class Evaluated:
    """A private evaluation.

    Attributes
    ----------
    score
        The figures; None where they could not be computed of the answers.
    plan
        Of the evaluation alone; its ledger has one answer for each agent.
    certificate
        Of training and evaluation together.
    totals
        The sum of all agents' noised answers.
    """

    score: PrivateScore | None
    plan: Plan
    certificate: Certificate
    totals: Float[HostArray, "S"]


def evaluation_plan(
    proposal: Proposal,
    training: Plan,
    weights: Float[HostArray, "..."] | None = None,
    *,
    record_norm: float | None = None,
) -> Plan:
    """Return the plan of a proposal's evaluation: one question, on the terms of the training.

    Parameters
    ----------
    training
        The plan of the training.
    weights
        The released model; None for a model of zeros, where only noise and costs are asked for.
    record_norm
        Of the rows that the model is for; None for those of the proposal.

    Notes
    -----
    **Guarantee.** That of `taciturn.plan`, with a ledger of its own. Where nothing of the training
    is credited to summation, nothing of the evaluation is: one observer sees both. Where both have
    a mu, that of the evaluation is at most that of the agent with the least in training, if the two
    are within a thousandth: a lattice of its own would otherwise make it larger in the last digits.
    """
    evaluation = proposal.evaluation
    assert evaluation is not None
    shape = proposal.facts.shape if weights is None else weights.shape
    model = np.zeros(shape) if weights is None else np.asarray(weights, np.float64)
    question = evaluation_question(proposal.data, proposal.budget.rows_per_person)
    norm = proposal.data.row_norm if record_norm is None else record_norm
    held = tuple(count for count in evaluation.counts if count)
    facts = facts_from(
        proposal.problem,
        held,
        features=shape[0],
        record_norm=norm,
        clip=proposal.clip,
        dealt=proposal.dealt,
    )
    terms = proposal.budget.terms
    if not training.program.summed:
        terms = dataclasses.replace(terms, observer=Messages())
    answers = question.answer_shape(shape)[0]
    algorithm = EvaluateModel(jnp.asarray(model), answers)
    network = None
    if training.network is not None and len(held) > 1:
        network = training.network.among(np.flatnonzero(evaluation.counts).tolist())
    asked = partial(
        plan, facts, algorithm, (question,), terms, rounds=1, precision="float64", network=network
    )
    planned = asked()
    excess = _excess(planned.certificate, training.certificate)
    if not 1 < excess <= _ALIKE:
        return planned
    more = planned.multiplier * excess * _ROUNDED
    return asked(multiplier=more)


# mu is charged to accounts in nine digits, rounded up
_ALIKE, _ROUNDED = 1.001, 1 + 1e-8


def _excess(evaluation: Certificate, training: Certificate) -> float:
    """Return the mu of an evaluation over the least of an agent in training; 1 without."""
    if evaluation.mu is None or not training.per_agent_mu or not np.isfinite(evaluation.mu):
        return 1.0
    least = min(training.per_agent_mu)
    return _ROUNDED * evaluation.mu / least if least > 0 else 1.0


def noise_variance(planned: Plan) -> float:
    """Return the variance of the noise in one number of the sum of all agents' answers."""
    return float(np.sum(planned.ledger.scale[:, 0, 0] ** 2))


def ask_held_out(  # noqa: PLR0913 - a model, what it came from, and whom to ask
    proposal: Proposal,
    training: Plan,
    weights: Float[HostArray, "..."],
    shards: Shards,
    *,
    trained_on: Origin | None,
    seed: int | None,
    devices: Devices | None = None,
) -> Evaluated:
    """Return the answers of the records that were held out of a model's run, without a score.

    Parameters
    ----------
    training
        The plan of the run that released the model, with the certificate of that run.
    weights
        The released model.
    shards
        The records that were held out, of the agents that hold some out, and none else; where
        persons are protected, packed in their places.
    trained_on
        The origin of the records of the training (`Run.origin`), none of which is asked.
    seed
        As for the training; with one both are reproductions.
    devices
        As for `taciturn.engine.run`.

    Raises
    ------
    PrivacyError
        If these are not as many records as the proposal holds out, or were not held out of those
        that were trained on.

    Notes
    -----
    **Guarantee.** That of `taciturn.run` for one question, and of `of_disjoint_parts` for training
    and evaluation together, whose rows are compared (`taciturn.problems.check_origins`).
    """
    evaluation = proposal.evaluation
    assert evaluation is not None
    answering = np.flatnonzero(evaluation.counts).tolist()
    check_origins(trained_on, shards.origin)
    if shards.counts != tuple(evaluation.counts[agent] for agent in answering):
        raise PrivacyError("the records are not those that the proposal holds out; divide anew")
    planned = evaluation_plan(proposal, training, weights, record_norm=shards.record_norm)
    finished = run(planned, shards, runtime="simulate", seed=evaluation_seed(seed), devices=devices)
    totals = np.asarray(finished.model, np.float64) * len(shards.counts)
    both = with_evaluation(proposal, training.certificate, finished.certificate)
    return Evaluated(None, planned, both, totals)


def score_of_totals(
    proposal: Proposal, planned: Plan, totals: Float[HostArray, "S"], scale: Scale
) -> PrivateScore:
    """Return the figures that the sum of all agents' noised answers amounts to.

    Parameters
    ----------
    planned
        The plan of the evaluation.
    """
    evaluation, rows = proposal.evaluation, proposal.budget.rows_per_person
    assert evaluation is not None
    units, variance = sum(evaluation.counts) // (rows or 1), noise_variance(planned)
    question = evaluation_question(proposal.data, rows)
    if isinstance(question, Tally):
        score = score_of_labels(question, totals, units, variance, scale)
    else:
        score = score_of_numbers(totals, units, variance, scale.unit)
    return score if rows is None else dataclasses.replace(score, unit="person")


def with_evaluation(
    proposal: Proposal, training: Certificate, evaluation: Certificate
) -> Certificate:
    """Return the certificate of a training together with the evaluation of its proposal.

    Notes
    -----
    **Guarantee.** That of `of_disjoint_parts`, whose parts are those of
    `taciturn.problems.hold_out`.
    """
    asked, rows = proposal.evaluation, proposal.budget.rows_per_person
    assert asked is not None
    unit = "record" if rows is None else "person"
    condition = (
        f"{asked.share:g} of each agent's {unit}s, chosen by a draw that sees none of them, were "
        "held out of the training and asked about its model: which they are stays secret, and "
        f"each {unit} is in one of the two, so both together cost it no more than the larger"
    )
    answering = np.flatnonzero(asked.counts).tolist()
    return of_disjoint_parts(training, evaluation, answering, condition, dealt=proposal.dealt)


def evaluation_seed(seed: int | None) -> int | None:
    """Return a seed whose noise has nothing to do with that of the training."""
    if seed is None:
        return None
    return int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])


def scale_of(proposal: Proposal, labels: tuple[str, ...] | None, unit: float) -> Scale:
    """Return what the score of a proposal's model is told in.

    Parameters
    ----------
    labels
        The labels as the user knows them; None for numbers.
    unit
        Of numbers: half the range of the target, in the user's units.
    """
    return Scale(labels, proposal.clipped_loss.log_odds, unit)
