"""How well a model predicts the test records, beside a baseline that looks at no feature."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import softmax

from taciturn.kernel.records import Shard, Shards, jax_array
from taciturn.problems import ClassWeighted, ClippedLoss, Loss, Problem, likelihood, minimise
from taciturn.tables import Table
from taciturn.training.facts import labels_of
from taciturn.training.probabilities import ProbabilityScores, score_probabilities
from taciturn.training.records import DividedData, data_facts
from taciturn.typing import Array, HostArray

STANDARD_ERRORS = 2
MOST_NAMED = 12  # classes whose recall is written out


@dataclass(frozen=True)
class WeightedError:
    r"""Errors in which the records of class c count v_c times, v the public class weights.

    .. math:: \sum_j v_{y_j} e_j \Big/ \sum_j v_{y_j}, \qquad e_j \in \{0, 1\}.

    `baseline` is the best constant answer to this error. With the weights of a prior, and test
    records that follow it, the error is 1 less the mean recall.
    """

    error: float
    baseline: str
    baseline_error: float


@dataclass(frozen=True)
class Assessment:
    r"""Figures of one model on n test records, and those of a baseline: the best constant answer.

    With d_j the error of the baseline on record j less that of the model (0 or 1 for labels,
    squared for numbers; times the weight of the record's class, where the model was trained with
    class weights), the model is *measurably better* if

    .. math:: \bar d > 2 s_d / \sqrt n,

    s_d the standard deviation of the d_j: of models that are as good as the baseline, about one in
    44 passes. The scores *rank* the records if the AUC exceeds 1/2 by two of its standard errors.

    - `error`, `baseline_error`: The fraction of wrong labels, or the root mean squared error in the
      units of the target.
    - `baseline`: The commonest label (the first of several), or the mean.
    - `gain`, `gain_error`: The mean of the d_j, weights having mean 1, and its standard error;
      infinite if n = 1.
    - `auc`, `auc_error`: Of two classes; of K the mean over those that occur, each against the rest
      by its probability. The standard error is that of scores independent of the labels,
      sqrt((n + 1) / (12 n_1 n_0)). None for numbers, and where all records have one label.
    - `recall`: By label, None where it does not occur; None for numbers.
    - `r2`: 1 less the ratio of the mean squared errors of model and baseline; None for labels, and
      where all targets are equal.
    - `weighted`: The errors that the model was trained for, where its classes have different
      weights.
    - `probabilities`: The Brier score and the calibration error (`ProbabilityScores`); None where
      scores are not log-odds (`taciturn.problems.ClippedLoss.log_odds`).

    **Guarantee.** Of the training records, a function of the released model alone. Of the test
    records it is computed without noise: it is shown where test errors are, and nowhere else.
    """

    records: int
    error: float
    baseline: str | float
    baseline_error: float
    gain: float
    gain_error: float
    auc: float | None = None
    auc_error: float | None = None
    recall: tuple[tuple[str, float | None], ...] | None = None
    r2: float | None = None
    weighted: WeightedError | None = None
    probabilities: ProbabilityScores | None = None

    @property
    def better(self) -> bool:
        """Whether the model is measurably better than the baseline."""
        return self.gain > STANDARD_ERRORS * self.gain_error

    @property
    def ranks(self) -> bool:
        """Whether the scores order the records measurably better than chance."""
        if self.auc is None or self.auc_error is None:
            return False
        return self.auc > 0.5 + STANDARD_ERRORS * self.auc_error

    @property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against the model, as sentences; none if it is measurably of use."""
        if self.baseline_error == 0:
            return (
                "all test records have the same target, so they cannot show whether the model is "
                "of use; test on records that differ",
            )
        found = []
        if not self.better:
            aim = self.weighted or self
            constant = repr(aim.baseline) if isinstance(aim.baseline, str) else "the mean"
            how = "" if self.weighted is None else " with the class weights"
            ordered = ""
            if self.ranks:
                ordered = (
                    f"; its scores do rank the records (AUC {self.auc:.3g}), so choose a threshold "
                    "on them that suits you"
                )
            found.append(
                f"the model is no better than always answering {constant}: its error{how} of "
                f"{self.error_text(aim.error)} is not below {self.error_text(aim.baseline_error)} "
                f"by two standard errors of the difference{ordered}"
            )
        if self.auc is not None and not self.ranks:
            found.append(
                f"AUC {self.auc:.3g} is not above 0.5 by two standard errors of "
                f"{self.auc_error:.2g}: the model's scores rank the test records no better than "
                "chance"
            )
        return tuple(found)

    def lines(self) -> list[str]:
        """Return what stands beside the error, as sentences for people."""
        error = self.error_text(self.baseline_error)
        baseline = f"Baseline {error}: always answering {self.baseline_text}"
        if self.recall is None:
            return [baseline if self.r2 is None else f"{baseline}; R^2 {self.r2:.3f}"]
        found = [baseline]
        if self.weighted is not None:
            aim = self.weighted
            found.append(
                f"Error with the class weights {aim.error:.2%}; always answering {aim.baseline!r}: "
                f"{aim.baseline_error:.2%}"
            )
        if self.auc is not None:
            several = ", each class against the rest" if len(self.recall) > 2 else ""
            chance = f"chance: 0.5, with a standard error of {self.auc_error:.2g}"
            found.append(f"AUC {self.auc:.3f}{several} ({chance})")
        found += [] if self.probabilities is None else self.probabilities.lines()
        recalls = (f"{k!r} {'none there' if v is None else f'{v:.2%}'}" for k, v in self.named())
        return [*found, f"Recall: {', '.join(recalls)}"]

    def named(self) -> tuple[tuple[str, float | None], ...]:
        """Return the recall of each label, of many the lowest ones; nothing for numbers."""
        recall = self.recall or ()
        if len(recall) <= MOST_NAMED:
            return recall
        known = [entry for entry in recall if entry[1] is not None]
        return tuple(sorted(known, key=lambda entry: entry[1] or 0.0)[:MOST_NAMED])

    @property
    def baseline_text(self) -> str:
        """What the baseline answers, in words."""
        if isinstance(self.baseline, str):
            return f"{self.baseline!r}, the commonest label of these records"
        return f"{self.baseline:.4g}, the mean of these records"

    def error_text(self, error: float) -> str:
        """Return a fraction in per cent, or a number in the units of the target."""
        return f"{error:.4g}" if self.recall is None else f"{error:.2%}"

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON-safe values; what is not finite is None."""
        values = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in dataclasses.asdict(self).items()
        }
        values["recall"] = None if self.recall is None else dict(self.recall)
        statement = [
            f"Test error {self.error_text(self.error)}, of {self.records:,} records",
            *self.lines(),
            *(f"Warning: {warning}" for warning in self.warnings),
        ]
        return {**values, "better": self.better, "statement": statement}


def assess(
    data: DividedData,
    loss: Loss,
    margins: Float[HostArray, "N *K"],
    error: float,
    *,
    clip: float | None = math.inf,
) -> Assessment:
    """Return the assessment of a model by its margins and its error on the test records.

    `clip`: that of the coefficient in training, on which depends whether margins are log-odds.
    """
    rows = data.test
    targets = np.asarray(rows.targets)
    answers, errors = _answers(loss, jax_array(margins), rows.targets)
    wrong = np.asarray(errors, np.float64)
    if data.dataset.task == "regression":
        return _of_numbers(data, targets, wrong, error)
    labels, binary = labels_of(data_facts(data.dataset)), data.dataset.task == "binary"
    assert labels is not None
    guessed = np.asarray(answers)
    codes, found = ((x > 0).astype(int) if binary else x.astype(int) for x in (targets, guessed))
    counts = np.bincount(codes, minlength=len(labels))
    commonest = int(np.argmax(counts))
    auc, spread = _auc(codes, margins, counts)
    aim, weights = _weighted(loss, labels, codes, wrong)
    answer = commonest if aim is None else labels.index(aim.baseline)
    gain, gain_error = _gain(weights * ((codes != answer) - wrong))
    likely = ClippedLoss("", loss, clip).probabilities(margins)
    finite = likely is not None and bool(np.isfinite(likely).all())  # a model may diverge
    return Assessment(
        records=len(codes),
        error=error,
        baseline=labels[commonest],
        baseline_error=1 - float(counts[commonest]) / len(codes),
        gain=gain,
        gain_error=gain_error,
        auc=auc,
        auc_error=spread,
        recall=tuple(
            (label, float(np.mean(found[codes == k] == k)) if counts[k] else None)
            for k, label in enumerate(labels)
        ),
        weighted=aim,
        probabilities=score_probabilities(likely, codes) if finite and likely is not None else None,
    )


@jax.jit
def _answers(loss: Loss, scores: Array, targets: Array) -> tuple[Array, Array]:
    """Return what is answered at some scores, and the error of each."""
    return loss.predict(scores), loss.error(scores, targets)


def _weighted(
    loss: Loss, labels: tuple[str, ...], codes: Int[HostArray, "N"], wrong: Float[HostArray, "N"]
) -> tuple[WeightedError | None, Float[HostArray, "N"]]:
    """Return the weighted errors, if there are weights, and the weights of records, of mean 1."""
    if not isinstance(loss, ClassWeighted) or len(set(loss.weights)) == 1:
        return None, np.ones(len(codes))
    given = np.array(loss.weights)[codes]
    weights = given / np.mean(given)
    shares = np.bincount(codes, weights, minlength=len(labels)) / len(codes)
    best = int(np.argmax(shares))
    error = float(np.mean(weights * wrong))
    return WeightedError(error, labels[best], 1 - float(shares[best])), weights


def _of_numbers(
    data: DividedData, targets: Float[HostArray, "N"], squares: Float[HostArray, "N"], error: float
) -> Assessment:
    (scale, middle), mean = data.dataset.target_scale, float(np.mean(targets))
    apart = (targets - mean) ** 2
    variance = float(np.mean(apart))
    gain, gain_error = _gain(scale**2 * (apart - squares))
    return Assessment(
        records=len(targets),
        error=error,
        baseline=middle + scale * mean,
        baseline_error=scale * math.sqrt(variance),
        gain=gain,
        gain_error=gain_error,
        r2=1 - float(np.mean(squares)) / variance if variance > 0 else None,
    )


def _gain(differences: Float[HostArray, "N"]) -> tuple[float, float]:
    """Return the mean of paired differences and its standard error."""
    count = len(differences)
    spread = float(np.std(differences, ddof=1)) if count > 1 else math.inf
    return float(np.mean(differences)), spread / math.sqrt(count)


def _auc(
    codes: Int[HostArray, "N"], margins: Float[HostArray, "N *K"], counts: Int[HostArray, "C"]
) -> tuple[float | None, float | None]:
    """Return the AUC and its standard error by chance; None where all records have one label."""
    if np.count_nonzero(counts) < 2:
        return None, None
    if margins.ndim == 1:
        scores = {1: margins}
    else:
        likely = softmax(margins, axis=1)
        scores = {k: likely[:, k] for k in np.flatnonzero(counts).tolist()}
    areas = [_area(score, codes == k) for k, score in scores.items()]
    total = int(np.sum(counts))
    chance = [
        math.sqrt((total + 1) / (12 * float(counts[k]) * float(total - counts[k]))) for k in scores
    ]
    return float(np.mean(areas)), float(np.mean(chance))


def _area(scores: Float[HostArray, "N"], positive: Bool[HostArray, "N"]) -> float:
    """Return the share of pairs whose positive has the higher score; ties count one half."""
    if np.isnan(scores).any():
        return math.nan
    _, place, tied = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(tied) - (tied - 1) / 2)[place]  # of equal scores the mean of their places
    count = int(np.sum(positive))
    above = float(np.sum(ranks[positive])) - count * (count + 1) / 2
    return above / (count * (len(scores) - count))


@dataclass(frozen=True)
class Metrics:
    """Errors and losses of one model; those on training records are oracle metrics.

    What was not measured is NaN. Errors are of what `predict` answers, which for a table's numbers
    is clipped to the range of the target.

    - `test_error`, `train_error`: The fraction of wrong labels; for numbers the root of the mean
      squared error, in the units of a table's target. The mean over the training records of
      all agents.
    - `test_loss`, `train_loss`: Mean loss on the test records; objective on the training records.
      Class weights count in losses and not in errors.
    """

    test_error: float
    test_loss: float
    train_loss: float
    train_error: float
    assessment: Assessment | None = None


UNMEASURED = Metrics(math.nan, math.nan, math.nan, math.nan)


def measure(
    problem: Problem,
    data: DividedData,
    shards: Shards | None,
    model: HostArray,
    *,
    clip: float | None = math.inf,
) -> Metrics:
    """Return the metrics of one model; without shards, those on training records are NaN.

    `clip`: as for `assess`; infinity for a minimiser of the problem as it stands.
    """
    curves = curves_on_test(problem, data, model[None])
    error, loss = (float(v[0]) for v in curves.values()) if curves else (math.nan, math.nan)
    train_error, objective = math.nan, math.nan
    if shards is not None:
        train_error, objective = on_training(problem, data, shards, model)
    assessment = None
    if curves:
        margins = np.asarray(data.test.features) @ np.asarray(model, np.float64)
        margins = margins.clip(-1, 1) if _is_bounded(data) else margins
        assessment = assess(data, problem.loss, margins, error, clip=clip)
    return Metrics(error, loss, objective, train_error, assessment)


def on_training(
    problem: Problem, data: DividedData, shards: Shards, model: HostArray
) -> tuple[float, float]:
    """Return error and objective on the training records: functions of them without noise."""
    weights = jax_array(model, shards.stacked.features.dtype)
    objective, wrong = _on_shards(problem, shards, weights, bounded=_is_bounded(data))
    return float(_in_units(data, np.array([wrong], np.float64))[0]), float(objective)


def curves_on_test(problem: Problem, data: DividedData, models: HostArray) -> dict[str, HostArray]:
    """Return `test_error` and `test_loss` of each of T models, `(T,)` each; empty without tests."""
    if not len(data.parts.test_targets):
        return {}
    rows, bounded, wide = data.test, _is_bounded(data), np.asarray(models, np.float64)
    # one program for one model and for those of all rounds
    pairs = [_on_rows(problem, rows, model, bounded=bounded) for model in wide]
    errors, losses = np.array(jax.device_get(pairs), np.float64).T
    return {"test_error": _in_units(data, errors), "test_loss": losses}


@partial(jax.jit, static_argnames="bounded")
def _on_rows(problem: Problem, rows: Shard, model: Array, *, bounded: bool) -> tuple[Array, Array]:
    """Return error and loss of a model; rows are arguments, or they would be in the program."""
    margins = rows.features @ model
    answers = margins.clip(-1, 1) if bounded else margins
    error = jnp.mean(problem.loss.error(answers, rows.targets))
    return error, jnp.mean(problem.loss.value(margins, rows.targets))


def optimum(problem: Problem, data: DividedData) -> Metrics:
    """Return the metrics of the non-private optimum of the same problem on the same shards.

    For a loss that is no gradient it is the optimum of its likelihood.
    """
    shards = data.shards("float64")
    problem = Problem(likelihood(problem.loss), problem.regulariser, problem.constraint)
    solution = minimise(problem, shards, tol=1e-6)
    return measure(problem, data, shards, np.asarray(solution.w))


@partial(jax.jit, static_argnames="bounded")
def _on_shards(
    problem: Problem, shards: Shards, model: Array, *, bounded: bool
) -> tuple[Array, Array]:
    """Return the objective and the mean error over the training records of all agents."""
    stacked = shards.stacked
    margins = stacked.features @ model
    answers = margins.clip(-1, 1) if bounded else margins
    errors = jax.vmap(problem.loss.error)(answers, stacked.targets).astype(jnp.float64)
    wrong = jnp.sum(stacked.mask * errors) / jnp.sum(stacked.mask, dtype=jnp.float64)
    return problem.objective(model, shards), wrong


def _is_bounded(data: DividedData) -> bool:
    """Whether the range of a numeric target is known, which `predict` then clips margins to."""
    return data.dataset.task == "regression" and isinstance(data.dataset, Table)


def _in_units(data: DividedData, errors: HostArray) -> HostArray:
    """Return squared errors as root mean squares in the target's units, others as they are."""
    if data.dataset.task != "regression":
        return errors
    return data.dataset.target_scale[0] * np.sqrt(errors)
