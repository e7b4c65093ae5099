"""Private evaluation on held-out records: its plan, its answer, its charge, and its precision."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from taciturn.algorithms import EvaluateModel
from taciturn.budget.charge import Charge, Events
from taciturn.engine import Plan, charge_of, plan, run
from taciturn.errors import InputError, PrivacyError
from taciturn.evaluation.score import (
    LEVEL,
    QUANTILE,
    PrivateScore,
    Scale,
    score_of_labels,
    score_of_numbers,
)
from taciturn.oracles import Tally
from taciturn.privacy import Certificate, GaussianAnswer, Messages
from taciturn.privacy.mechanisms import LEAST_SCALE
from taciturn.problems import Devices, Origin, Shards, check_origins, facts_from
from taciturn.proposal import Proposal
from taciturn.typing import HostArray

# mu is charged to accounts in nine digits, rounded up
_ALIKE, _ROUNDED = 1.001, 1 + 1e-8
LIKELY = 0.1


@dataclass(frozen=True)
class Evaluated:
    """A private evaluation: its plan, and the sum of all agents' noised answers.

    The certificate is that of training and evaluation together; the score is None where it could
    not be computed.
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

    The weights are those of the released model, or zeros, where only noise and costs matter; the
    record norm is that of its rows, or of the proposal.

    **Guarantee.** That of `taciturn.plan`, with a ledger of its own. Where nothing of the training
    is credited to summation, nothing of the evaluation is: one observer sees both. Where both have
    a mu, that of the evaluation is at most that of the agent with the least in training, if the two
    are within a thousandth: a lattice of its own would otherwise make it larger in the last digits.
    """
    evaluation = proposal.evaluation
    assert evaluation is not None
    shape = proposal.facts.shape if weights is None else weights.shape
    model = np.zeros(shape) if weights is None else np.asarray(weights, np.float64)
    question = proposal.question
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
        network = training.network.among(evaluation.agents)
    asked = partial(
        plan, facts, algorithm, (question,), terms, rounds=1, precision="float64", network=network
    )
    planned = asked()
    mu, least = planned.certificate.mu, min(training.certificate.per_agent_mu or (0.0,))
    if mu is None or not (math.isfinite(mu) and least > 0):
        return planned
    excess = _ROUNDED * mu / least
    if not 1 < excess <= _ALIKE:
        return planned
    return asked(multiplier=planned.multiplier * excess * _ROUNDED)


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

    A `PrivacyError` if these are not as many records as the proposal holds out, or were not held
    out of those that were trained on.

    - `training`: The plan of the run that released the model, with the certificate of that run.
    - `shards`: The held-out records of the agents that hold some out; persons in their places.
    - `trained_on`: The origin of the records of the training (`Run.origin`), none of which is
      asked.
    - `seed`: As for the training; with one both are reproductions.

    **Guarantee.** That of `taciturn.run` for one question, and of `of_disjoint_parts` for training
    and evaluation together, whose rows are compared (`taciturn.problems.check_origins`).
    """
    evaluation = proposal.evaluation
    assert evaluation is not None
    check_origins(trained_on, shards.origin)
    if shards.counts != tuple(evaluation.counts[agent] for agent in evaluation.agents):
        raise PrivacyError("the records are not those that the proposal holds out; divide anew")
    planned = evaluation_plan(proposal, training, weights, record_norm=shards.record_norm)
    finished = run(planned, shards, runtime="simulate", seed=evaluation_seed(seed), devices=devices)
    totals = np.asarray(finished.model, np.float64) * len(shards.counts)
    both = with_evaluation(proposal, training.certificate, finished.certificate)
    return Evaluated(None, planned, both, totals)


def score_of_totals(
    proposal: Proposal, planned: Plan, totals: Float[HostArray, "S"], scale: Scale
) -> PrivateScore:
    """Return the score by the sum of all agents' noised answers to the plan of an evaluation."""
    evaluation, rows = proposal.evaluation, proposal.budget.rows_per_person
    assert evaluation is not None
    units, variance = sum(evaluation.counts) // (rows or 1), noise_variance(planned)
    question = proposal.question
    if isinstance(question, Tally):
        score = score_of_labels(question, totals, units, variance, scale)
    else:
        score = score_of_numbers(totals, units, variance, scale.unit)
    return score if rows is None else dataclasses.replace(score, unit="person")


def with_evaluation(
    proposal: Proposal, training: Certificate, evaluation: Certificate
) -> Certificate:
    """Return the certificate of a training together with the evaluation of its proposal.

    **Guarantee.** That of `of_disjoint_parts`, with the parts of `taciturn.problems.hold_out`.
    """
    asked, rows = proposal.evaluation, proposal.budget.rows_per_person
    assert asked is not None
    unit = "record" if rows is None else "person"
    condition = (
        f"{asked.share:g} of each agent's {unit}s, chosen by a draw that sees none of them, were "
        "held out of the training and asked about its model: which they are stays secret, and "
        f"each {unit} is in one of the two, so both together cost it no more than the larger"
    )
    return of_disjoint_parts(training, evaluation, asked.agents, condition, dealt=proposal.dealt)


def of_disjoint_parts(
    training: Certificate,
    evaluation: Certificate,
    answering: Sequence[int],
    condition: str,
    *,
    dealt: bool = False,
) -> Certificate:
    r"""Return the certificate of two runs, each record being in the data of one of them only.

    A `PrivacyError` if the two are about other neighbours, observers or deltas.

    - `answering`: The agents of the second run, which asks held-out records, by their numbers in
      the first.
    - `condition`: What says which record is in which part.
    - `dealt`: Whether records were dealt to the agents at random: whoever has a record may be one
      who answers, so that the dearest agent's figures are every agent's.

    **Guarantee.** Both promise (epsilon, delta), and so do both together; the mu of both
    together is the larger of the two, and not the root of the sum of their squares.

    Let part(j) in {T, E} be where record j is, by a secret draw that sees no record. Its law does
    not depend on the order of the file, so neighbouring data sets can be compared draw by draw
    (`taciturn.problems.Draw`): they then have the same parts but for what record r says, and a
    bound that holds for every draw holds for the mixture. Write M(D_T) for the law of all that
    the first run lets an observer see, and N_m(D_E) for that of the second, which may depend on
    what was seen, m: the model is a function of it. The observer sees (m, n) with the law
    M(dm | D_T) N_m(dn | D_E).

    *r is in T.* Then D_E = D'_E. Given m, the law of n is the same on both data sets, so (m, n) is
    post-processing of m, and every bound for M holds.

    *r is in E.* Then D_T = D'_T, and m has the same law on both. For an event S with the sections
    S_m,

        P(S | D) = E_m N_m(S_m | D_E) <= E_m [e^eps N_m(S_m | D'_E) + delta]
                 = e^eps P(S | D') + delta,

    where every N_m is (eps, delta)-private: the certificate of the second run holds at every query.
    The same holds for the trade-off function of a test, and so for mu: given m, which carries
    nothing about r, the test is one of N_m, and a mean of errors over m at a level a in the mean
    is no better than G_mu(a), which is convex.

    *Persons.* The same with r a person at one agent: all rows of a person are in one part
    (`taciturn.problems.hold_out`). A person at several agents is refused, since each of them
    divides its own.

    Adaptive choice of the second run's question is therefore harmless, as long as the first
    reads no record of E: not for its centre, nor for any of several candidates.
    """
    same = ("delta", "relation", "unit", "record", "rows_per_person", "agents_per_person")
    if training.agents_per_person not in {None, 1}:
        raise PrivacyError("a person is at several agents, who divide their rows on their own")
    different = [name for name in same if getattr(training, name) != getattr(evaluation, name)]
    if different:
        raise PrivacyError(
            f"training and evaluation differ in their {different[0]}; plan both on the same terms"
        )
    if evaluation.observer not in {training.observer, "messages"}:
        raise PrivacyError("the evaluation was certified for a weaker observer; plan it again")
    agents = list(answering)
    epsilons = np.array(training.per_agent_epsilon)
    epsilons[agents] = np.maximum(epsilons[agents], evaluation.per_agent_epsilon)
    sizes = None
    if training.per_agent_mu is not None and evaluation.per_agent_mu is not None:
        sizes = np.array(training.per_agent_mu)
        sizes[agents] = np.maximum(sizes[agents], evaluation.per_agent_mu)
    if dealt:
        epsilons[:] = np.max(epsilons)
        sizes = None if sizes is None else np.full_like(sizes, np.max(sizes))
    arithmetic, other = training.arithmetic, evaluation.arithmetic
    if other not in {arithmetic, ""}:
        arithmetic = f"{arithmetic}; of the evaluation, it {other}"
    return dataclasses.replace(
        training,
        epsilon=max(training.epsilon, evaluation.epsilon),
        mu=None if sizes is None else float(np.max(sizes)),
        per_agent_epsilon=tuple(epsilons.tolist()),
        per_agent_mu=None if sizes is None else tuple(sizes.tolist()),
        reproduction=training.reproduction or evaluation.reproduction,
        attacker_tpr=max(training.attacker_tpr, evaluation.attacker_tpr),
        conditions=(*training.conditions, condition),
        conditional=training.conditional or evaluation.conditional,
        arithmetic=arithmetic,
    )


def evaluation_seed(seed: int | None) -> int | None:
    """Return a seed whose noise has nothing to do with that of the training."""
    if seed is None:
        return None
    return int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])


def score_units(proposal: Proposal, labels: tuple[str, ...] | None, unit: float) -> Scale:
    """Return the units in which the score is reported: class labels, or half the target's range."""
    return Scale(labels, proposal.clipped_loss.log_odds, unit)


def check_covered(proposal: Proposal, training: Plan) -> None:
    """Raise `InputError` unless the charge of a training covers that of its evaluation, too.

    **Guarantee.** A record is in one of the two parts (`of_disjoint_parts`), so what the two runs
    reveal of it is at most the larger of their costs, agent by agent: the charge of the training,
    if no answer of the evaluation has less noise than all of the agent's answers in training
    together.
    """
    evaluation = proposal.evaluation
    if evaluation is None or not evaluation.asked:
        return
    first, last = charge_of(training), charge_of(evaluation_plan(proposal, training))
    pairs = [(first.messages, last.messages)]
    if last.summed is not None:
        pairs.append((first.summed or (), last.summed))
    covered = all(
        len(charged) > max(evaluation.agents)
        and all(
            _multiplier(charged[agent]) <= _multiplier(events)
            for agent, events in zip(evaluation.agents, asked, strict=True)
        )
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
    """Return the charge of one agent's training together with its evaluation.

    **Guarantee.** As for `check_covered`: the larger of both costs, taken for each observer, for
    how many numbers are released and for how fine their lattice is. An `InputError` if one of the
    two is more than single Gaussian answers.
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
    return tuple(min(both, key=_multiplier) for both in zip(one, other, strict=True))


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


@dataclass(frozen=True)
class Width:
    """Half-widths of the interval of an error, before anything is asked.

    Of labels the error is the fraction of wrong ones, of numbers the mean absolute error in units
    of half the target's range; `records` are held out, `trained` trained on, persons or records.

    - `noise`: Of noise alone; `most` and `likely` are of noise and sample.
    - `likely`: At an error of 10 %; None for numbers.
    - `most`: At an error of 1/2, where it is largest.
    """

    records: int
    trained: int
    noise: float
    likely: float | None
    most: float
    unit: Literal["record", "person"] = "record"

    def lines(self) -> list[str]:
        """Return the widths as sentences."""
        of, unit, at = "of the mean absolute error", " of half the target's range", ""
        if self.likely is not None:
            of, unit, at = "of the error", "", f", {self.likely:.2%} at an error of {LIKELY:.0%}"
        return [
            f"Evaluation: {self.records:,} {self.unit}s are held out, {self.trained:,} trained on; "
            f"the {LEVEL:.0%} interval {of} will reach {self.most:.2%}{unit} either way at most"
            f"{at}; noise alone {self.noise:.2%}"
        ]


def expected_width(proposal: Proposal, planned: Plan) -> Width | None:
    r"""Return the widths for a proposal; None if it holds nothing out.

    With n records held out, k of d cells wrong and noise of variance v in each cell,

    .. math:: 1.96 \sqrt{v k (1 - k / d) / n^2 + e (1 - e) / n}

    at an error of e (`taciturn.evaluation.score`); of numbers v / n^2 in place of the first
    term; `planned` is the plan of the training.
    """
    evaluation = proposal.evaluation
    if evaluation is None:
        return None
    rows = proposal.budget.rows_per_person
    records = sum(evaluation.counts) // (rows or 1)
    variance = noise_variance(evaluation_plan(proposal, planned)) / records**2
    question = proposal.question
    if isinstance(question, Tally):
        cells = math.prod(question.shape)
        wrong = cells * (1 - 1 / question.classes)
        variance *= wrong * (1 - wrong / cells)

    def half(error: float) -> float:
        return QUANTILE * math.sqrt(variance + error * (1 - error) / records)

    return Width(
        records=records,
        trained=proposal.units,
        noise=half(0.0),
        likely=half(LIKELY) if isinstance(question, Tally) else None,
        most=half(0.5),
        unit="record" if rows is None else "person",
    )
