r"""Private evaluation of a released model: one question to the held-out records.

This module has its plan, its answer, its charge and the certificate of both runs; then its figures,
with intervals, from noised counts or sums.

Every figure of labels is computed from one joint count of label, prediction and bin of the score.
Intervals for shares and means account for both noise and sampling.

Let x be the noised counts of d cells: the number of records in each cell plus independent noise of
known variance v. The total n is public, so the sum of the noises is known, too. Subtracting it in
equal parts gives

    x + (n - sum_k x_k) / d,      covariance v (I - 11' / d),

the best linear unbiased estimate of the counts. It halves the noise variance of a sum over half of
the cells. `Counts` is that estimate.

**Shares.** Let r be the probability that a record in the cells b is in the cells a, a subset of b,
and N = a'x, M = b'x. Given the number of records in b, N - r M has mean 0 and variance

    V(r) = V_aa - 2 r V_ab + r^2 V_bb + r (1 - r) M,     V_ab = v (|a n b| - |a| |b| / d),

the last term due to sampling, in which M stands for the true number. The interval is the set of r
with (N - r M)^2 <= z^2 V(r): if b is all cells and there is no noise, it is Wilson's interval; with
noise alone, Fieller's for a ratio. It solves a quadratic inequality, and is all of [0, 1] if that
has no bounded solution, as for a label whose occurrence is hidden by the noise.

**Means.** For n values t in [0, 1] with noised sums S_1 of t and S_2 of t^2, each with noise of
variance v, the mean m = S_1 / n has variance v / n^2 + s^2 / n with s^2 = S_2 / n - m^2, projected
to [0, m (1 - m)] if noise moves it outside.

**Persons.** If persons are sampled and each contributes the mean over its rows, n is their number,
and the sampling terms above are bounds: with 0 <= f <= g <= 1 a person's contributions to N and M,
since f (1 - f) >= 0 and squares are convex,

    E (f - r g)^2  <=  E [f (1 - r)^2 + (g - f) r^2]  =  r (1 - r) E g,

with equality for persons with one row, or equal rows; and the mean of t^2 over a person's rows is
at least the square of their mean. So intervals attain their level, and exceed it if rows of a
person differ. Treating rows as separate persons would fall short of it.

**The AUC** is the probability that a record of the second class has a higher score than one of the
first, with ties counting one half. With p_i records of the second class and q_i of the first in bin
i, P and Q in all, pairs in different bins are ordered and pairs within a bin may have either order,
so the AUC of these records lies between

    L = sum_i p_i sum_{j < i} q_j / (P Q),        L + sum_i p_i q_i / (P Q).

Both are smooth functions of the counts x. With g the gradient at their estimate, noise contributes
the variance v (|g|^2 - (sum g)^2 / d), and sampling, with multinomial counts, the variance sum_k
x_k g_k^2 (sum_k x_k g_k = 0, since both are invariant to scaling of x). The interval extends from z
standard deviations below the lower limit to z above the upper one: it covers the AUC of the scores
with at least its level.
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
from taciturn.training.proposal import Proposal
from taciturn.typing import HostArray

LEVEL = 0.95
QUANTILE = 1.959963984540054  # of the standard normal law at (1 + LEVEL) / 2
MOST_NAMED = 12  # classes whose recall is printed
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
    in training: its separate lattice would otherwise make it larger in the last digits.
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
        plan,
        facts,
        algorithm,
        (question,),
        terms,
        rounds=1,
        precision="float64",
        network=network,
        part="held out",
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


def score_units(proposal: Proposal, labels: tuple[str, ...] | None, unit: float) -> Scale:
    """Return the units in which the score is reported: class labels, or half the target's range."""
    return Scale(labels, proposal.clipped_loss.log_odds, unit)


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


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval at the confidence level `LEVEL`."""

    estimate: float
    low: float
    high: float

    def mapped(self, increasing: Callable[[float], float]) -> Interval:
        """Return the interval of an increasing function of the estimated number."""
        return Interval(*map(increasing, (self.estimate, self.low, self.high)))


@dataclass(frozen=True, eq=False)
class Counts:
    """Noised counts of d cells, adjusted to their known total.

    `variance` is that of the noise of one cell before it was adjusted.
    """

    values: Float[HostArray, " d"]
    total: int
    variance: float

    @classmethod
    def of(cls, noised: Float[HostArray, " d"], total: int, variance: float) -> Counts:
        """Return noised counts, adjusted to their total."""
        spread = (total - float(np.sum(noised))) / len(noised)
        return cls(np.asarray(noised, np.float64) + spread, total, variance)

    def noise(self, one: Float[HostArray, " d"], other: Float[HostArray, " d"]) -> float:
        """Return the covariance, due to noise, of two weighted sums of the counts."""
        shared = float(np.sum(one) * np.sum(other)) / len(self.values)
        return self.variance * (float(one @ other) - shared)


def ratio_interval(
    counts: Counts, part: Bool[HostArray, " d"], whole: Bool[HostArray, " d"]
) -> Interval | None:
    """Return the share of the records in the cells `whole` that are in the cells `part`.

    None if noise hides whether there is any record in `whole`.
    """
    a, b = part.astype(np.float64), whole.astype(np.float64)
    number, among = float(a @ counts.values), float(b @ counts.values)
    noise_a, noise_ab, noise_b = counts.noise(a, a), counts.noise(a, b), counts.noise(b, b)
    z2 = QUANTILE**2
    if among <= 0 or among**2 <= z2 * noise_b:
        return None
    # second * r^2 + first * r + constant <= 0
    second = among**2 - z2 * (noise_b - among)
    first = -2 * number * among + 2 * z2 * noise_ab - z2 * among
    constant = number**2 - z2 * noise_a
    estimate = min(max(number / among, 0.0), 1.0)
    inside = first**2 - 4 * second * constant
    if second <= 0 or inside < 0:
        return Interval(estimate, 0.0, 1.0)
    root = math.sqrt(inside)
    return _within(estimate, (-first - root) / (2 * second), (-first + root) / (2 * second))


def mean_interval(total: float, squares: float, records: int, variance: float) -> Interval:
    """Return the mean of numbers in [0, 1] from noised sums of them and of their squares."""
    mean = total / records
    inside = min(max(mean, 0.0), 1.0)
    spread = min(max(squares / records - mean**2, 0.0), inside * (1 - inside))
    half = QUANTILE * math.sqrt(variance / records**2 + spread / records)
    return _within(inside, mean - half, mean + half)


def _within(estimate: float, low: float, high: float) -> Interval:
    """Return the interval of a number known to be in [0, 1]."""
    low, high = (min(max(end, 0.0), 1.0) for end in (low, high))
    return Interval(estimate, min(low, estimate), max(high, estimate))


class Scale(NamedTuple):
    """The units of a score: class labels, None for numbers, or half the target's range.

    `probabilities`: whether scores are log-odds (`taciturn.problems.ClippedLoss.log_odds`).
    """

    labels: tuple[str, ...] | None
    probabilities: bool
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
    - `auc`, `auc_limits`: For two classes: the middle of the limits, with an interval that covers
      both, and the limits, which bound the AUC since scores are known only by bin.
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
        if self.auc is not None and self.auc_limits is not None:
            low, high = self.auc_limits
            between = f"{low:.3f} to {high:.3f} by its bins"
            found.append(("AUC", f"{between} ({self.auc.low:.3f} to {self.auc.high:.3f})"))
        recalls = sorted(self.recall or (), key=lambda of: 2.0 if of[1] is None else of[1].estimate)
        return found + [(f"recall of {k!r}", percent(share)) for k, share in recalls[:MOST_NAMED]]

    def lines(self) -> list[str]:
        """Return the figures as sentences."""
        return [self.head, *(f"  {name}: {text}" for name, text in self.rows())]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON-safe values, with the sentences."""
        values = dataclasses.asdict(self)
        values["recall"] = None if self.recall is None else dict(values["recall"])
        return {**values, "level": LEVEL, "statement": self.lines()}


def percent(share: Interval | None) -> str:
    """Return a share with its interval, in per cent."""
    if share is None:
        return "hidden by the noise"
    return f"{share.estimate:.2%} ({share.low:.2%} to {share.high:.2%})"


def score_of_labels(
    question: Tally, totals: Float[HostArray, " d"], records: int, variance: float, scale: Scale
) -> PrivateScore:
    """Return the score from the counts of a `Tally`, each with noise of that variance."""
    names = scale.labels
    assert names is not None
    counts = Counts.of(totals, records, variance)
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
        calibration=_calibration(question, counts) if scale.probabilities else None,
        auc=auc and auc[0],
        auc_limits=auc and auc[1],
    )


def _calibration(question: Tally, counts: Counts) -> tuple[Bin, ...]:
    label, guess, place = question.axes()
    least = 0.0 if question.classes == 2 else 1 / question.classes
    right = label == 1 if question.classes == 2 else label == guess
    ends = least + (1 - least) * np.arange(question.bins + 1) / question.bins

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
