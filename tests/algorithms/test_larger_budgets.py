"""A larger budget never gives a worse expected model of a noisy gradient with its default rules.

On a quadratic loss the released model is affine in the noise, so its expected excess risk is exact:
sum_i h_i E(xbar_i - w_i)^2 / 2 over the eigenvectors of the Hessian, by a recursion of second
moments. No noise is drawn and no tolerance is needed but that of rounding.
"""

import numpy as np
import pytest

from taciturn.algorithms import NoisyGradient
from taciturn.algorithms.methods import noise_of_gradients
from taciturn.training import DataFacts, Request, propose

RECORD_NORM = 2.0
CLASSES = {"binary": 2, "multiclass": 4, "regression": None}
SPECTRA = {
    "even": lambda d: np.full(d, 1 / d),
    "one over i": lambda d: 1 / np.arange(1, d + 1) / (1 + np.log(d)),
    "geometric": lambda d: 0.5 ** np.arange(1, d + 1),
}


def excess(schedules, curvature, noise):
    """The expected excess risk, for a solution of independent coordinates of variance 1 / R^2."""
    moment = np.full((len(curvature), 3, 3), 1 / RECORD_NORM**2)  # of query, iterate and average
    still = np.zeros_like(curvature)
    for step, beta, a in zip(
        *(schedules[name] for name in ("step_size", "momentum", "averaging")), strict=True
    ):
        kept = 1 - step * curvature
        move = np.stack(
            [
                np.stack([(1 + beta) * kept, still - beta, still], -1),
                np.stack([kept, still, still], -1),
                np.stack([a * kept, still, still + 1 - a], -1),
            ],
            -2,
        )
        enters = np.array([1 + beta, 1, a])
        moment = move @ moment @ move.transpose(0, 2, 1)
        moment = moment + (step * noise) ** 2 * np.outer(enters, enters)
    return float(curvature @ moment[:, 2, 2]) / 2


def settings(count):
    """So many settings, drawn once: task, agents, observer, records, columns, epsilon, spectrum."""
    draw, found = np.random.default_rng(0), []
    while len(found) < count:
        one = (
            str(draw.choice(list(CLASSES))),
            int(draw.choice([1, 10, 100])),
            str(draw.choice(["messages", "sum"])),
            int(10 ** draw.uniform(2.5, 6)),
            int(10 ** draw.uniform(0.5, 2.5)),
            float(10 ** draw.uniform(-1, 1)),
            str(draw.choice(list(SPECTRA))),
        )
        if one[3] >= 5 * one[1]:
            found.append(one)
    return found


def risk(task, agents, observer, records, columns, epsilon, spectrum):
    facts = DataFacts(
        name="mine", task=task, classes=CLASSES[task], columns=columns, record_norm=RECORD_NORM,
        table=None,
    )  # fmt: skip
    request = Request(epsilon=epsilon, delta=1e-6, observer=observer, centre=False)
    proposal = propose(facts, [records // agents] * agents, request)
    setting = proposal.setting
    noise = noise_of_gradients(setting, setting.terms.observer)
    method = NoisyGradient(setting.problem)
    schedules = method.schedule(setting.facts, proposal.rounds, noise)
    curvature = setting.facts.smoothness * SPECTRA[spectrum](columns)
    return excess(schedules, curvature, noise.of_mean), proposal.rounds


@pytest.mark.parametrize("setting", settings(60), ids=lambda one: "-".join(map(str, one)))
def test_twice_the_epsilon_gives_no_worse_model(setting):
    *facts, epsilon, spectrum = setting
    (less, _), (more, _) = (risk(*facts, e, spectrum) for e in (epsilon, 2 * epsilon))
    assert more <= less * (1 + 1e-9)


def test_the_settings_pass_every_number_of_rounds_and_the_recursion_sees_a_worse_rule():
    rounds = {risk(*one)[1] for one in settings(60)}
    assert len(rounds) >= 4
    # thirty times the step under the same noise gives a worse model
    size, noise = 50, 0.2
    flat = {"momentum": np.zeros(200), "averaging": np.ones(200)}
    first, second = (
        excess(flat | {"step_size": np.full(200, step)}, np.full(size, 0.01), noise)
        for step in (0.1, 3.0)
    )
    assert second > first
