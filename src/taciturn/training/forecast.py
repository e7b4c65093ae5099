r"""Predictions of a run from theory and public facts, before a record is read.

Let T be the number of rounds, d the coordinates of the model, R the record norm, c_1 the bound on a
record's gradient, L the smoothness and nu the standard deviation, per coordinate, of the mean of
all agents' noised answers in one round. All predictions are for the loss alone, without a
regulariser, and assume a minimiser of norm at most the radius r = sqrt(d) / R.

At a fixed total budget nu grows as sqrt(T). The accumulated noise then hardly depends on T, and
more rounds only allow smaller steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from taciturn import algorithms
from taciturn.algorithms import METHODS, Method, batch_variance, radius_of
from taciturn.calibration import deviation_of
from taciturn.engine import Plan
from taciturn.errors import InputError
from taciturn.kernel.questions import around
from taciturn.kernel.records import Spec
from taciturn.problems import Loss, Survival
from taciturn.training.proposal import Proposal
from taciturn.typing import Array

ENOUGH = 1.05


@dataclass(frozen=True)
class Forecast:
    """The prediction for one method and number of rounds; None for unknown quantities.

    - `multiplier`: Noise scale / sensitivity of every answer.
    - `mu`: That of the certificate; None on sampled batches.
    - `noise`: nu, in the units of the answer: a gradient, or X'X / m for `one-question`.
    - `margin_noise`: Standard deviation of a record's margin due to the accumulated noise, in a
      direction without curvature: R H nu / sqrt(T), H the horizon T eta / (1 - beta).
    - `proven`: A proved bound on the expected excess risk; see `basis`.
    - `rule`: An estimate of the excess risk, not proved for this method as run.
    - `basis`: The source of `proven` and `rule`.
    - `estimate`: Whether the rule estimates the risk, or the least cost of the noise, and so may be
      compared with the risk of the model 0; a published rate is a bound far above it.
    - `least`: The limit of the rule for many rounds, if known.
    """

    algorithm: str
    rounds: int
    multiplier: float
    mu: float | None
    noise: float
    margin_noise: float | None = None
    proven: float | None = None
    rule: float | None = None
    basis: str = "no prediction for this algorithm"
    estimate: bool = False
    least: float | None = None


class _Setting(NamedTuple):
    """The subject of a prediction: a method, facts about its rows, its rounds, its loss, and nu."""

    plan: Plan
    algorithm: algorithms.Algorithm
    facts: Spec
    first: int
    rounds: int
    loss: Loss
    noise: float


def forecast(
    proposal: Proposal, methods: Mapping[str, Method] = METHODS, plan: Plan | None = None
) -> Forecast:
    """Return the prediction for a proposal from its plan; the regulariser is ignored."""
    if math.isinf(proposal.budget.epsilon):
        raise InputError("a run without noise has no forecast; give a finite epsilon")
    plan = proposal.plan(methods) if plan is None else plan
    name, algorithm, facts, first = proposal.method.name, plan.program.algorithm, plan.spec, 0
    if isinstance(algorithm, algorithms.Centred):  # whose first round asks for the centre
        facts = around(facts, algorithm.row_norm)
        algorithm, first = algorithm.method, 1
    noise = noise_of_mean(plan, first)
    known: dict[str, Any] = {}
    if name in _PREDICTIONS:
        loss, rounds = proposal.problem.loss, plan.rounds - first
        known = _PREDICTIONS[name](_Setting(plan, algorithm, facts, first, rounds, loss, noise))
    mu = plan.certificate.mu
    return Forecast(name, proposal.rounds, plan.multiplier, mu, noise, **known)


def known_forecast(
    proposal: Proposal, plan: Plan, methods: Mapping[str, Method] = METHODS
) -> Forecast | None:
    """Return the prediction for a plan; None without noise, or for a method without a rule."""
    name = proposal.method.name
    ruled = name in PREDICTED and methods.get(name) is METHODS[name]
    noised = not math.isinf(proposal.budget.epsilon)
    return forecast(proposal, methods, plan) if noised and ruled else None


def risk_of_zero(proposal: Proposal, *, scaled: bool = False) -> float | None:
    """Return the largest possible mean loss of the model 0: max over targets y of l(0, y).

    It is log 2 for the logistic loss, log K for K classes; 1/2 for the squared loss on a table,
    whose targets are mapped to [-1, 1]. None for numbers without a stated range. The excess risk of
    the model 0 is no larger, since losses are nonnegative.

    `scaled`: whether numeric targets are known to be in [-1, 1], like those of tables.
    """
    data, loss = proposal.data, proposal.problem.loss
    targets = np.array([-1.0, 1.0])
    if data.task == "multiclass":
        targets = np.arange(data.classes or 0)
    elif data.task == "regression":
        if (data.table is None and not scaled) or isinstance(loss, Survival):
            return None
        targets = np.array([-1.0, 0.0, 1.0])
    margins = np.zeros((len(targets), *(() if loss.outputs is None else (loss.outputs,))))
    return float(np.max(np.asarray(_losses(loss, margins, targets))))


def excess_of_zero(proposal: Proposal, *, scaled: bool = False) -> float | None:
    r"""Return the largest excess risk of the model 0, under the assumptions of all predictions.

    It is at most the risk of the model 0, and, for a loss l whose second derivative in the margin
    is at most b, and a minimiser w with margins m,

    .. math:: F(0) - F(w) \le \frac b2 E |m|^2,

    since l(0) <= l(m) - l'(m) m + b |m|^2 / 2 and the mean of l'(m) m is w times the gradient at w,
    which is 0. With |w| <= r = sqrt(d) / R and rows spread evenly over all directions E |m|^2 is
    the number of margins of a record, 1 or the number of classes. So a logistic model can gain 1/8
    over the model 0, much less than log 2. None as for `risk_of_zero`.
    """
    zero, loss = risk_of_zero(proposal, scaled=scaled), proposal.problem.loss
    return None if zero is None else min(zero, loss.smoothness * (loss.outputs or 1) / 2)


@jax.jit
def _losses(loss: Loss, margins: Array, targets: Array) -> Array:
    return loss.value(margins, targets)


def worse_than_zero(
    proposal: Proposal, predicted: Forecast | None, *, scaled: bool = False
) -> bool | None:
    """Return whether the predicted excess risk exceeds that of the model 0; None if unknown.

    It is known only for a rule that is an estimate; for `scaled` see `risk_of_zero`.
    """
    zero = excess_of_zero(proposal, scaled=scaled)
    if predicted is None or not predicted.estimate or zero is None:
        return None
    return predicted.rule is None or predicted.rule > zero


def risk_warning(
    proposal: Proposal, predicted: Forecast | None, *, scaled: bool = False
) -> tuple[str, ...]:
    """Return a warning if the noise is expected to exceed what the records say (`excess_of_zero`).

    `scaled` is as in `risk_of_zero`.
    """
    zero = excess_of_zero(proposal, scaled=scaled)
    worse = worse_than_zero(proposal, predicted, scaled=scaled)
    if predicted is None or zero is None or not worse:
        return ()
    others = proposal.facts.agents > 1 and proposal.budget.observer != "sum"
    ways = ["fewer columns", "more records", *(["the observer sum"] if others else [])]
    helps = f"{', '.join(ways)} or a larger epsilon help"
    if predicted.rule is None:
        return (f"the noise is expected to hide all that the records say; {helps}",)
    why = (
        f"the noise is expected to exceed what {proposal.units_text} say of "
        f"{proposal.facts.dimension:,} coefficients"
    )
    if predicted.least is not None and predicted.least <= zero:
        why = "the released model may be of no use"
        helps = f"more rounds help (in many the estimate is {predicted.least:.3g})"
    return (
        f"the excess risk is estimated at {predicted.rule:.3g}, and the model 0, which knows no "
        f"record, has about {zero:.3g}: {why}; {helps}",
    )


def noise_of_mean(plan: Plan, first: int = 0) -> float:
    """Return nu, the noise per coordinate of the mean of the answers in round `first`."""
    scale = plan.ledger.scale[:, first, 0][plan.ledger.asked[:, first, 0]]
    scale = deviation_of(scale, plan.program.mechanism)
    return float(np.sqrt(np.sum(scale**2)) / len(scale))


def floor(facts: Spec, epsilon: float, *, units: int | None = None) -> float:
    r"""Return c_1 radius min(1, sqrt(d) / (n epsilon)), n `units` in all: an order of magnitude.

    Bassily, Smith and Thakurta (2014), Theorem 5.3: for every (epsilon, delta)-private algorithm,
    delta = o(1/n), there is a data set and a convex Lipschitz loss on a ball on which its expected
    excess empirical risk is Omega(min(1, sqrt(d) / (n epsilon))) times Lipschitz constant times
    radius. The theorem does not state the constant, which is taken as 1. The bound is for the worst
    data set, neighbours that differ in one record, and an observer of the model alone. With
    persons, n is their number, not that of records: each may have the same row K times.
    """
    share = math.sqrt(facts.dimension) / ((sum(facts.counts) if units is None else units) * epsilon)
    return facts.gradient_bound * radius_of(facts) * min(1.0, share)


def recommended(forecasts: Iterable[Forecast]) -> Forecast | None:
    """Return the forecast with the fewest rounds whose rule is within 5 % of the least.

    The forecasts are of one algorithm: rules of different algorithms are not comparable. None if
    there is no rule.
    """
    ruled = [(f.rule, f) for f in forecasts if f.rule is not None]
    least = min((rule for rule, _ in ruled), default=0.0)
    good = [f for rule, f in ruled if rule <= ENOUGH * least]
    return min(good, key=lambda f: f.rounds, default=None)


def gradient_bound(
    horizon: float, variance: float, *, rounds: int, facts: Spec, averaged: float
) -> float:
    r"""Return a bound on the expected excess risk of the noisy gradient without momentum.

    Steps eta = H / T <= 1/L, noise of total variance V = E|n_t|^2 with mean zero given the past,
    the last a = max(1, round(averaged T)) iterates averaged, start at 0, a minimiser w with |w| <=
    r:

        E F(xbar) - F(w) <= (T / a) (r^2 / (2 H) + c H V / T),
        c = min(1, 1 / (2 (1 - eta L))).

    Proof. For x' = prox_{eta}(x - eta g), g = gradient + n, convexity, smoothness and the strong
    convexity of the prox give

        F(x') - F(w) <= (|x - w|^2 - |x' - w|^2) / (2 eta) + n'(w - x')
                        - (1/eta - L) |x' - x|^2 / 2.

    With x in place of x' in n'(w - x'), the rest n'(x - x') - (1/eta - L) |x' - x|^2 / 2 is at most
    |n|^2 / (2 (1/eta - L)) and n'(w - x) has mean zero; with the un-noised step instead, which is
    within eta |n| of x', it is at most eta |n|^2. Either way the mean is c eta V. Summed over the
    last a rounds this is |x_b - w|^2 / (2 eta) + a c eta V, b = T - a; and summed over the first b,
    where F(x') - F(w) >= 0, it gives E|x_b - w|^2 <= r^2 + 2 b c eta^2 V. Jensen's inequality
    completes the proof. If clipping changes the coefficient, F is the clipped loss.
    """
    steepness = horizon / rounds * facts.smoothness
    loss = min(1.0, 1 / (2 * (1 - steepness))) if steepness < 1 else 1.0
    tail = max(1, round(averaged * rounds))
    start = radius_of(facts) ** 2 / (2 * horizon)
    return rounds / tail * (start + loss * horizon * variance / rounds)


def statistics_risk(noise: float, facts: Spec) -> float | None:
    r"""Return the least excess risk due to the noise of `one-question`, to first order.

    The noise N in S = X'X / m and n in X'y / m move the solution w along an eigenvector of S with
    eigenvalue l by (n - N w) / l, which costs its square times l / 2. E|n - N w|^2 is
    nu^2 (D + (D + 1) |w|^2 / 2). The eigenvalues add up to at most R^2, so at best all are R^2 / D:

        D nu^2 (D + (D + 1) r^2 / 2) / (2 R^2)       with |w| = r = sqrt(D) / R.

    None if even then they lie below the floor 2 nu sqrt(2 D): the estimate is then shrunk.
    """
    size, even = facts.dimension, facts.record_norm**2 / facts.dimension
    if even <= statistics_floor(noise, facts):
        return None
    spread = noise**2 * (size + (size + 1) * radius_of(facts) ** 2 / 2)
    return spread / (2 * even)


def statistics_floor(noise: float, facts: Spec) -> float:
    """Return the eigenvalue floor of `OneQuestion`, 2 nu sqrt(2 D)."""
    return 2 * noise * math.sqrt(2 * facts.dimension)


def _of_gradient(setting: _Setting) -> dict[str, Any]:
    plan, algorithm, facts, _, rounds, loss, noise = setting
    if not isinstance(algorithm, algorithms.NoisyGradient):
        raise InputError("this forecast is for the noisy gradient only; forecast it by its name")
    step, momentum = (float(plan.schedules[k][0]) for k in ("step_size", "momentum"))
    horizon = rounds * step / (1 - momentum)
    rate = plan.program.oracles[0].sampling.rate
    variance = facts.dimension * noise**2 + batch_variance(facts, rate)
    margin = facts.record_norm * horizon * noise / math.sqrt(rounds)
    rule = radius_of(facts) ** 2 / (2 * horizon) + horizon * variance / (2 * rounds)
    # over all horizons; at a fixed total the variance is proportional to the rounds
    least = radius_of(facts) * math.sqrt(variance / rounds)
    known = {"rule": rule, "margin_noise": margin, "estimate": True, "least": least}
    if momentum > 0:
        return known | {"basis": "steps 1/L with momentum: no proof, rule only"}
    # a clipped gradient is the gradient of a convex function if the margin is a scalar
    reached = facts.gradient_bound >= facts.record_norm * loss.lipschitz
    if loss.outputs is not None and not (reached and loss.is_gradient):
        return known | {"basis": "bounded vectors are no gradient: rule only"}
    share = algorithm.averaged
    proven = gradient_bound(horizon, variance, rounds=rounds, facts=facts, averaged=share)
    batches = ", variance of batches included" if rate < 1 else ""
    return known | {"basis": f"proven for the loss as clipped{batches}", "proven": proven}


def _of_admm(setting: _Setting) -> dict[str, Any]:
    r"""(37) of Huang et al. 2019 over A, with beta = c_1 and without a regulariser.

    c_w sqrt(2 d) mean_i(s_i) / sqrt(T) + (c_w^2 (c_3 + rho) + c_1^2 / rho) / (2 T),  s_i the noise
    of agent i's gradient: (34) and (35) name the same number. With beta = c_1 the left-hand side is
    at least F - F* at the averaged public value. This is not proved here: (88) sums the distances
    of the iterates from the solution as if none exceeded c_w, which no step enforces, and the last
    public value is released.
    """
    algorithm, facts = setting.algorithm, setting.facts
    if not isinstance(algorithm, algorithms.DPADMM):
        raise InputError("the method called dp-admm is another one now; forecast it by its rate")
    if algorithm.step_rule != "smooth":
        return {"basis": f"no prediction for the {algorithm.step_rule} step rule"}
    size = algorithm.radius or math.sqrt(facts.agents * facts.dimension) / facts.record_norm
    rho, slope = float(algorithm.rho), facts.gradient_bound
    scale = float(np.mean(setting.plan.ledger.scale[:, setting.first, 0]))
    spread = size * math.sqrt(2 * facts.dimension) * scale
    rest = size**2 * (facts.smoothness + rho) + slope**2 / rho
    rule = spread / math.sqrt(setting.rounds) + rest / (2 * setting.rounds)
    basis = "(37) as published: average of all rounds, iterates within c_w"
    return {"basis": basis, "rule": rule}


def _of_statistics(setting: _Setting) -> dict[str, Any]:
    facts, noise = setting.facts, setting.noise
    least, rule = statistics_floor(noise, facts), statistics_risk(noise, facts)
    even = facts.record_norm**2 / facts.dimension
    meaning = "the noise hides every direction"
    if rule is not None:
        meaning = "a least value to first order, not to be compared"
    text = f"{meaning}; eigenvalue floor {least:.3g}, mean eigenvalue <= {even:.3g}"
    return {"basis": text, "rule": rule, "estimate": True}


_PREDICTIONS: Mapping[str, Callable[[_Setting], dict[str, Any]]] = {
    "noisy-gradient": _of_gradient,
    "dp-admm": _of_admm,
    "one-question": _of_statistics,
    "dp-sgd": _of_gradient,
}
PREDICTED = tuple(_PREDICTIONS)
