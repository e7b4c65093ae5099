r"""Private evaluation of a released model: one question to the held-out records.

This module has its plan, its answer, its charge and the certificate of both runs; then its figures,
with intervals, from noised counts or sums.

Every figure of labels is computed from one joint count of label, prediction and bin of the score.
Intervals account for both noise and sampling (`taciturn.training.intervals`); scores of
probabilities are in `taciturn.training.probabilities`.

**The AUC** is the probability that a record of the second class has a higher score than one of the
first, with ties counting one half. With p_i records of the second class and q_i of the first in bin
i, P and Q in all, pairs in different bins are ordered and pairs within a bin may have either order,
so the AUC of these records lies between

    L = sum_i p_i sum_{j < i} q_j / (P Q),        L + sum_i p_i q_i / (P Q).

Both are smooth functions of the counts x. With g the gradient at their estimate, noise contributes
the variance v (|g|^2 - (sum g)^2 / d), and sampling, with multinomial counts, the variance sum_k
x_k g_k^2 (sum_k x_k g_k = 0, since both are invariant to scaling of x). The one interval that is
stated extends from z standard deviations below the lower limit to z above the upper one: it covers
the AUC of the scores with at least its level. The estimate is the middle of the limits, at which
pairs within a bin count one half. An interval wider than 1/4 is stated without an estimate, as too
wide to use.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from taciturn.algorithms import EvaluateModel
from taciturn.engine import Plan, charge_of, charge_of_legs, plan, run
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel import privacy
from taciturn.kernel.privacy import LEAST_SCALE, Certificate, Messages
from taciturn.kernel.questions import Tally
from taciturn.kernel.records import Devices, Origin, Shards
from taciturn.problems import facts_from
from taciturn.training.intervals import (
    LEVEL,
    QUANTILE,
    Counts,
    Interval,
    mean_interval,
    ratio_interval,
)
from taciturn.training.probabilities import Sums
from taciturn.training.proposal import Proposal
from taciturn.typing import HostArray

MOST_NAMED = 12  # classes whose recall is printed
WIDEST = 0.25  # interval of a share that is of use: half of what an error or an AUC may be
_TOO_WIDE, _TOO_FEW = ", too wide to use", "too few held-out records for this budget"
_MORE = "hold more out (--evaluate), or take a larger budget, fewer agents or the observer sum"
_FEWEST = 3  # least count of either class for an AUC, in standard deviations of the noise
# accounts are charged mu in nine digits, rounded up
_ALIKE, _ROUNDED = 1.001, 1 + 1e-8
LIKELY = 0.1


@dataclass(frozen=True)
class Evaluated:
    """A private evaluation: its plan, and the sum of all agents' noised answers.

    The certificate covers training and evaluation together; the score is None if it could not be
    computed.
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

    The weights are those of the released model, or zeros if only noise and costs matter; the record
    norm is that of its rows, or of the proposal.

    **Guarantee.** As for `taciturn.plan`, with a separate ledger. If summation is not credited in
    the training, it is not credited in the evaluation: one observer sees both. If both have a mu
    and the two are within a thousandth, that of the evaluation is at most the least mu of an agent
    in training: its separate lattice would otherwise make it larger in the last digits. Where each
    agent has a budget, it holds for the evaluation too, and mu is compared agent by agent.
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
    budgets = proposal.budget.agent_epsilons
    if budgets is not None:
        budgets = tuple(budgets[agent] for agent in evaluation.agents)
        terms = dataclasses.replace(terms, epsilon=max(budgets))
    answers = question.answer_shape(shape)[0]
    algorithm = EvaluateModel(jnp.asarray(model), answers)
    network = None
    if training.network is not None and len(held) > 1:
        network = training.network.among(evaluation.agents)
    asked = partial(
        plan,
        facts,
        algorithm,
        (question,),
        terms,
        rounds=1,
        precision="float64",
        network=network,
        part="held out",
        agent_epsilons=budgets,
    )
    planned = asked()
    trained = np.array(training.certificate.per_agent_mu or (0.0,))
    mu, least = planned.certificate.mu, float(np.min(trained))
    if mu is None or not (math.isfinite(mu) and least > 0):
        return planned
    excess = _ROUNDED * mu / least
    if budgets is not None:
        its = np.array(planned.certificate.per_agent_mu)
        excess = _ROUNDED * float(np.max(its / trained[list(evaluation.agents)]))
    if not 1 < excess <= _ALIKE:
        return planned
    return asked(multiplier=planned.multiplier * excess * _ROUNDED)


def noise_variance(planned: Plan) -> float:
    """Return the noise variance of one entry of the sum of all agents' answers."""
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

    Raises `PrivacyError` if their counts are not those of the proposal, or they were not held out
    of the training records.

    - `training`: The plan of the run that released the model, with the certificate of that run.
    - `shards`: The held-out records of the agents that hold some out; persons in their places.
    - `trained_on`: The origin of the training records (`Run.origin`), none of which is queried.
    - `seed`: The seed of the training; with a seed both are reproductions.

    **Guarantee.** As for `taciturn.run` with one question, and for
    `taciturn.kernel.privacy.compose` with training and evaluation, whose rows are compared
    (`taciturn.kernel.door.opened`).
    """
    evaluation = proposal.evaluation
    assert evaluation is not None
    if shards.counts != tuple(evaluation.counts[agent] for agent in evaluation.agents):
        raise PrivacyError(
            "the records are not those that the proposal holds out; divide them again"
        )
    planned = evaluation_plan(proposal, training, weights, record_norm=shards.record_norm)
    finished = run(
        planned,
        shards,
        runtime="simulate",
        seed=evaluation_seed(seed),
        devices=devices,
        trained_on=trained_on,
    )
    totals = np.asarray(finished.model, np.float64) * len(shards.counts)
    both = with_evaluation(proposal, training.certificate, finished.certificate)
    return Evaluated(None, planned, both, totals)


def score_of_totals(
    proposal: Proposal, planned: Plan, totals: Float[HostArray, "S"], scale: Scale
) -> PrivateScore:
    """Return the score from the sum of all agents' noised answers to an evaluation."""
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

    Raises as `taciturn.kernel.privacy.compose`.

    **Guarantee.** As for `taciturn.kernel.privacy.compose`, with the parts of
    `taciturn.kernel.records.hold_out`, under the conditions of both.
    """
    both = _both_parts(proposal, training, evaluation).certificate()
    stated = (*training.conditions, *evaluation.conditions)
    return both.under(stated, conditional=training.conditional or evaluation.conditional).stamped(
        reproduction=training.reproduction or evaluation.reproduction
    )


def _both_parts(
    proposal: Proposal, training: Certificate, evaluation: Certificate
) -> privacy.Composition:
    """Return the composition of a training and its evaluation on the held-out records."""
    assert proposal.evaluation is not None
    held_out = [
        dataclasses.replace(leg, agents=tuple(proposal.evaluation.agents))
        for leg in evaluation.legs
        if isinstance(leg, privacy.Leg)
    ]
    return privacy.compose((*training.legs, *held_out), proposal.budget.terms)


def evaluation_seed(seed: int | None) -> int | None:
    """Return a seed whose noise is independent of that of the training."""
    if seed is None:
        return None
    return int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])


def check_covered(proposal: Proposal, training: Plan) -> None:
    """Raise `InputError` unless the charge of a training covers its evaluation too.

    **Guarantee.** The charge of both (`taciturn.engine.charge_of_legs`) is that of the training.
    """
    evaluation = proposal.evaluation
    if evaluation is None or not evaluation.asked:
        return
    last = evaluation_plan(proposal, training).certificate
    both = charge_of_legs(_both_parts(proposal, training.certificate, last))
    # an account counts the released numbers, on lattices of at least this fineness
    fineness = min(both.least_scale, LEAST_SCALE)
    alone = charge_of(training)
    same = dataclasses.replace(both, least_scale=alone.least_scale) == alone
    if not (same and fineness == min(alone.least_scale, LEAST_SCALE)):
        raise InputError(
            "the account is charged for the training, and the evaluation needs more than that; "
            "leave --evaluate or --account out, train in more rounds, or let all agents answer in "
            "each of them"
        )


@dataclass(frozen=True)
class Width:
    """Half-widths of the interval of an error, known before the evaluation.

    For labels the error is the fraction of wrong ones, for numbers the mean absolute error in units
    of half the target's range; `records` records or persons are held out, `trained` are trained on.

    - `noise`: Due to noise alone; `most` and `likely` are due to noise and sampling.
    - `likely`: At an error of 10 %; None for numbers.
    - `most`: At an error of 1/2, the maximum.
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
            f"half-width of the {LEVEL:.0%} interval {of}: at most {self.most:.2%}{unit}"
            f"{at}; from noise alone {self.noise:.2%}"
        ]


def expected_width(proposal: Proposal, planned: Plan) -> Width | None:
    r"""Return the widths for a proposal; None if it holds nothing out.

    With n records held out, k of d cells wrong and noise of variance v in each cell,

    .. math:: 1.96 \sqrt{v k (1 - k / d) / n^2 + e (1 - e) / n}

    at an error of e; for numbers the first term is v / n^2. `planned` is the plan of the training.
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


class Scale(NamedTuple):
    """The units of a score: class labels, None for numbers, or half the target's range."""

    labels: tuple[str, ...] | None
    unit: float


@dataclass(frozen=True)
class Bin:
    """Records whose predicted probability lies in [low, high].

    `share`: the share in the second of two classes, or correctly classified among several; None if
    noise hides whether there are any.
    """

    low: float
    high: float
    share: Interval | None


@dataclass(frozen=True)
class PrivateScore:
    r"""The score of a model from noised counts of held-out records.

    Every interval is for the figure in the population that the records sample, at the confidence
    level 95 %, separately for each figure.

    - `records`: n, the number of records, or persons, held out.
    - `noise`: Standard deviation of the noise in one entry of the sum of all agents' answers.
    - `error`: The fraction of wrong labels.
    - `baseline`, `baseline_error`: The most frequent label by the noised counts, and the error of
      always predicting it.
    - `confusion`: Records by label (rows) and prediction (columns); noised, so some may be
      negative.
    - `calibration`: By bin of the predicted probability; None if scores are not log-odds.
    - `brier`, `calibration_error`: As `taciturn.training.probabilities` defines them, the latter
      with `calibration_bins` bins; None if scores are not log-odds. The estimate of the calibration
      error is that on these records, less the bias due to noise.
    - `auc`: For two classes: the AUC by bins, ties counting one half, with the interval of the AUC
      of the scores; None if noise hides whether both classes occur.
    - `auc_limits`: The least and largest AUC by bins that the scores may have, which `auc` covers.
    - `absolute`, `root_square`: For numbers, in the user's units: the mean absolute and the
      root-mean-square error, with errors clipped at half the range.
    - `unit`: "person" if persons were held out: each counts once, with the mean over its rows.

    **Guarantee.** Post-processing of one noised answer, which the certificate covers.
    """

    records: int
    noise: float
    error: Interval | None = None
    baseline: str | None = None
    baseline_error: Interval | None = None
    recall: tuple[tuple[str, Interval | None], ...] | None = None
    confusion: tuple[tuple[float, ...], ...] | None = None
    calibration: tuple[Bin, ...] | None = None
    brier: Interval | None = None
    calibration_error: Interval | None = None
    calibration_bins: int | None = None
    auc: Interval | None = None
    auc_limits: tuple[float, float] | None = None
    absolute: Interval | None = None
    root_square: Interval | None = None
    unit: Literal["record", "person"] = "record"

    @property
    def head(self) -> str:
        """The meaning of the figures, as a sentence."""
        each = ", each counting once" if self.unit == "person" else ""
        return (
            f"Private score, from {self.records:,} {self.unit}s held out{each} (in brackets "
            f"{LEVEL:.0%} confidence intervals for noise and sampling, each for one figure in the "
            f"population of {self.unit}s):"
        )

    def rows(self) -> list[tuple[str, str]]:
        """Return the figures as names and texts, the most important first."""
        if self.absolute is not None and self.root_square is not None:
            pairs = {"mean absolute": self.absolute, "root-mean-square": self.root_square}
            return [
                (f"{name} error", f"{value.estimate:.4g} ({value.low:.4g} to {value.high:.4g})")
                for name, value in pairs.items()
            ]
        found = [("error", percent(self.error))]
        found.append((f"always answering {self.baseline!r}", percent(self.baseline_error)))
        if self.auc is not None:
            found.append(("AUC", _stated(self.auc, "{:.3f}".format)))
        if self.brier is not None and self.calibration_error is not None:
            brier, error = self.brier, self.calibration_error
            text = f"{brier.estimate:.4f} ({brier.low:.4f} to {brier.high:.4f})"
            hidden = error.low == 0  # noise and sampling may be all that is seen
            gap = f"at most {error.high:.2%}" if hidden else percent(error)
            name = f"calibration error, {self.calibration_bins} bins"
            found += [("Brier score", text), (name, gap)]
        recalls = sorted(self.recall or (), key=lambda of: 2.0 if of[1] is None else of[1].estimate)
        found += [(f"recall of {k!r}", percent(share)) for k, share in recalls[:MOST_NAMED]]
        wide = [name for name, text in found if text.endswith(_TOO_WIDE)]
        return [*found, *([(_TOO_FEW, f"see {', '.join(wide)}; {_MORE}")] if wide else [])]

    def lines(self) -> list[str]:
        """Return the figures as sentences."""
        return [self.head, *(f"  {name}: {text}" for name, text in self.rows())]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON-safe values, with the sentences."""
        values = dataclasses.asdict(self)
        del values["auc_limits"]  # no second interval beside that of `auc`
        values["recall"] = None if self.recall is None else dict(values["recall"])
        return {**values, "level": LEVEL, "statement": self.lines()}


def percent(share: Interval | None) -> str:
    """Return a share with its interval, in per cent."""
    return "hidden by the noise" if share is None else _stated(share, "{:.2%}".format)


def _stated(value: Interval, written: Callable[[float], str]) -> str:
    """Return an estimate in [0, 1] with its interval; the interval alone if it is too wide."""
    between = f"{written(value.low)} to {written(value.high)}"
    if value.high - value.low > WIDEST:
        return f"{between}{_TOO_WIDE}"
    return f"{written(value.estimate)} ({between})"


def score_of_labels(
    question: Tally, totals: Float[HostArray, " d"], records: int, variance: float, scale: Scale
) -> PrivateScore:
    """Return the score from the counts of a `Tally`, each with noise of that variance."""
    names = scale.labels
    assert names is not None
    counts = Counts.of(totals[: math.prod(question.shape)], records, variance)
    sums = None if question.offsets is None else Sums.of(question, totals, counts)
    label, guess, place = question.axes()
    every, classes = np.ones(len(label), bool), range(len(names))
    commonest = int(np.argmax([float(np.sum(counts.values[label == k])) for k in classes]))
    auc = _auc(counts, label, place) if question.classes == 2 else None
    return PrivateScore(
        records=records,
        noise=math.sqrt(variance),
        error=ratio_interval(counts, label != guess, every),
        baseline=names[commonest],
        baseline_error=ratio_interval(counts, label != commonest, every),
        recall=tuple(
            (name, ratio_interval(counts, (label == k) & (guess == k), label == k))
            for k, name in enumerate(names)
        ),
        confusion=tuple(
            tuple(float(np.sum(counts.values[(label == k) & (guess == j)])) for j in classes)
            for k in classes
        ),
        calibration=_calibration(question, counts) if sums is not None else None,
        brier=None if sums is None else sums.brier(),
        calibration_error=None if sums is None else sums.calibration_error(),
        calibration_bins=None if sums is None else question.bins,
        auc=auc and auc[0],
        auc_limits=auc and auc[1],
    )


def _calibration(question: Tally, counts: Counts) -> tuple[Bin, ...]:
    label, guess, place = question.axes()
    right = label == 1 if question.classes == 2 else label == guess
    ends = question.ends()

    def observed(here: Bool[HostArray, " d"]) -> Interval | None:
        return ratio_interval(counts, right & here, here)

    return tuple(
        Bin(float(ends[k]), float(ends[k + 1]), observed(place == k)) for k in range(question.bins)
    )


def _auc(
    counts: Counts, label: HostArray, place: HostArray
) -> tuple[Interval, tuple[float, float]] | None:
    """Return the AUC with its limits; None if noise hides whether both classes occur."""
    second, first = counts.values[label == 1], counts.values[label == 0]
    of_label = (label == 1).astype(np.float64)
    fewest = _FEWEST * math.sqrt(counts.noise(of_label, of_label))
    if min(float(np.sum(second)), float(np.sum(first))) <= max(fewest, 0.0):
        return None
    ends = []
    for ties, side in ((0.0, -1), (1.0, 1)):
        area, of_second, of_first = _area(second, first, ties)
        gradient = np.where(label == 1, of_second[place], of_first[place])
        sample = float(np.sum(np.maximum(counts.values, 0) * gradient**2))
        spread = math.sqrt(counts.noise(gradient, gradient) + sample)
        ends.append((min(max(area, 0.0), 1.0), area + side * QUANTILE * spread))
    (lower, low), (upper, high) = ends
    upper = max(lower, upper)
    middle = (lower + upper) / 2
    interval = Interval(middle, min(max(low, 0.0), lower), max(min(high, 1.0), upper))
    return interval, (lower, upper)


def _area(
    second: Float[HostArray, " B"], first: Float[HostArray, " B"], ties: float
) -> tuple[float, HostArray, HostArray]:
    """Return the AUC with pairs in one bin counted as `ties`, and its gradient in the counts."""
    whole, others = float(np.sum(second)), float(np.sum(first))
    below = np.cumsum(first) - first + ties * first
    above = np.cumsum(second[::-1])[::-1] - second + ties * second
    area = float(second @ below) / (whole * others)
    return area, (below / others - area) / whole, (above / whole - area) / others


def score_of_numbers(
    totals: Float[HostArray, "3"], records: int, variance: float, unit: float
) -> PrivateScore:
    """Return the score from noised sums of `ClippedErrors`; `unit` is half the target's range."""
    first, second, fourth = (float(total) for total in totals)
    absolute = mean_interval(first, second, records, variance)
    squared = mean_interval(second, fourth, records, variance)
    return PrivateScore(
        records=records,
        noise=math.sqrt(variance),
        absolute=absolute.mapped(lambda error: unit * error),
        root_square=squared.mapped(lambda error: unit * math.sqrt(error)),
    )
