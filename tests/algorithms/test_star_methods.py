"""What is special in methods with an aggregator: published forms, schedules, where noise stands."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import (
    computed,
    make_shards,
    make_terms,
    plan_of,
)
from taciturn.algorithms import (
    ADMM,
    DPADMM,
    LinearisedADMM,
    NoisyGradient,
    at_agents,
)
from taciturn.audit import audit_perturbed
from taciturn.engine import compute, records_for_door, run
from taciturn.errors import InputError
from taciturn.kernel.exact import Replay
from taciturn.kernel.privacy import (
    Adjacency,
    Messages,
    ReplaceOne,
    Terms,
)
from taciturn.kernel.questions import PerturbedStep, ProximalStep
from taciturn.problems import (
    L1,
    L2,
    Box,
    ElasticNet,
    HuberHinge,
    Logistic,
    MultinomialLogistic,
    NoRegulariser,
    Problem,
    Simplex,
    Squared,
    minimise,
)
from taciturn.training import Request

ZOO = {
    "box": Problem(Logistic(), NoRegulariser(), Box(-0.3, 0.3)),
    "elastic-box": Problem(HuberHinge(0.5), ElasticNet(0.01, 0.1), Box(-0.3, 0.3)),
    "lasso": Problem(Squared(), L1(0.05)),
    "simplex": Problem(Squared(), L2(0.1), Simplex(1.0)),
    "classes": Problem(MultinomialLogistic(3), L2(0.1)),
}


def noiseless(algorithm, problem, shards, rounds):
    made = plan_of(algorithm, shards, None, make_terms(math.inf), clip=math.inf, rounds=rounds)
    return run(made, shards, runtime="simulate", keep=frozenset({"models"}))


def zoo_shards(problem):
    return make_shards(agents=3, records=15, features=4, seed=2, classes=problem.loss.outputs)


@pytest.mark.parametrize("name", sorted(ZOO))
def test_without_noise_the_noisy_gradient_keeps_its_proven_rate(name):
    """F(x_k) - F* <= 2 L |x_0 - x*|^2 / (k + 1)^2 in every round, and 1e-8 in the end."""
    problem = ZOO[name]
    shards = zoo_shards(problem)
    truth = minimise(problem, shards, tol=1e-10)
    done = noiseless(NoisyGradient(problem), problem, shards, 3000)
    models = jnp.asarray(done.trace.models)
    values = np.asarray(jax.lax.map(lambda w: problem.objective(w, shards), models))
    k = np.arange(1, len(values) + 1)
    bound = 2 * problem.loss.smoothness * float(jnp.sum(truth.w**2)) / (k + 1) ** 2
    assert np.all(values - truth.value <= bound + 1e-12)
    assert values[-1] - truth.value <= 1e-8 * abs(truth.value)


def test_published_dp_admm_converges_at_its_rate_without_noise():
    """Theorem 3 without noise: average gap at most c_w sqrt(2) (c_1 + c_2) / sqrt(t) + M_2 / t."""
    problem = Problem(Logistic(), L1(0.01))
    shards = make_shards(agents=3, records=15, features=4, seed=2)
    truth = minimise(problem, shards, tol=1e-10)
    radius = float(jnp.linalg.norm(truth.w))
    admm = DPADMM(problem, rho=0.1, radius=radius, step_rule="nonsmooth", regulariser_at="agents")
    done = noiseless(admm, problem, shards, 2000)
    average = jnp.mean(jnp.asarray(done.trace.models), axis=0)
    gap = float(problem.objective(average, shards)) - truth.value
    c = 1.0 + 0.01 * 2
    assert 0 <= gap + 1e-12 <= radius * math.sqrt(2) * c / math.sqrt(2000) + 1.0 / 2000


def published(x, y, noise, *, rho, weight, step, rounds, sign):
    """(38a)-(39d) as printed, in NumPy: primal noise xi on w_i, per agent, per round."""
    agents, d = x.shape[0], x.shape[2]
    w, tilde, gamma = np.zeros(d), np.zeros((agents, d)), np.zeros((agents, d))
    for k in range(rounds):
        inverse, previous = 1 / step[k], gamma.copy()
        for i in range(agents):
            sigmoid = y[i] / (1 + np.exp(y[i] * (x[i] @ tilde[i])))
            push = np.mean(sigmoid[:, None] * x[i], axis=0)
            pull = weight * (np.sign(tilde[i]) if sign else tilde[i])
            exact = (push - pull + gamma[i] + rho * w + tilde[i] * inverse) / (rho + inverse)
            tilde[i] = exact + noise[k, i] / (rho + inverse)
        w = tilde.mean(0) - previous.mean(0) / rho
        gamma = previous - rho * (tilde - w)
    return w


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["nonsmooth", "smooth"])
def test_dp_admm_is_the_published_algorithm_with_its_primal_noise(rule):
    """Noise of scale s on the gradient is the paper's sigma_k = s / (rho + 1/eta_k) on w_i."""
    rounds, epsilon, delta, weight, radius = 7, 0.1, 1e-5, 0.01, 2.0
    shards = make_shards(agents=3, records=8, features=4)
    problem = Problem(Logistic(), L1(weight) if rule == "nonsmooth" else L2(weight))
    admm = DPADMM(problem, rho=0.1, radius=radius, step_rule=rule, regulariser_at="agents")
    log = math.log(1.25 / delta)
    total = make_terms(epsilon=1.0, delta=delta)
    made = plan_of(admm, shards, None, total, rounds=rounds)
    s = made.ledger.scale[0, 0, 0]
    epsilon = 2 / 8 * math.sqrt(2 * log) / s  # the per-round epsilon that (14) gives this noise
    k, d, m = np.arange(1, rounds + 1), 4, 8
    if rule == "nonsmooth":  # (29)
        inside = (1 + weight * math.sqrt(d)) ** 2 + 8 * d * log / (m * epsilon) ** 2
        step = radius / np.sqrt(2 * k) / math.sqrt(inside)
    else:  # (34)
        step = 1 / (0.25 + weight + 4 * np.sqrt(d * k * log) / (m * epsilon * radius))
    np.testing.assert_allclose(made.schedules["step_size"], np.tile(step, (3, 1)), rtol=1e-10)

    keep = frozenset({"answers"})
    model, trace = computed(made.program, records_for_door(made, shards), keep=keep)
    exact = exact_answers(made, shards, trace)
    noise = -(np.asarray(trace.records.answer) - exact)[:, 0]
    x, y = np.asarray(shards.stacked.features), np.asarray(shards.stacked.targets)
    theirs = published(
        x, y, noise, rho=0.1, weight=weight, step=step, rounds=rounds, sign=rule == "nonsmooth"
    )
    np.testing.assert_allclose(model, theirs, atol=1e-12)


def exact_answers(made, shards, trace):
    door = Replay(made.program.oracles, records_for_door(made, shards), trace.records.answer)
    _, replayed = compute(made.program, door, keep=frozenset())
    return np.asarray(replayed.records.exact)


def test_settings_out_of_range_are_refused():
    with pytest.raises(InputError, match="local_updates"):
        LinearisedADMM(ZOO["box"], 0)
    with pytest.raises(InputError, match=r"has no option local-updates.*linearised-admm"):
        Request(epsilon=1.0, delta=1e-3, options={"local_updates": 2})
    with pytest.raises(InputError, match="local-updates"):
        Request(epsilon=1.0, delta=1e-3, algorithm="linearised-admm", options={"local_updates": 0})


RHO = 2.0
PROBLEM = Problem(Logistic(), L2(0.1))


def planned_exact(shards, terms, rounds, *, where="server", clip=1.0):
    return plan_of(
        ADMM(PROBLEM, RHO, regulariser_at=where), shards,
        (ProximalStep(at_agents(PROBLEM, where), clip, RHO, 1.0, 1e-12),), terms, clip=clip,
        rounds=rounds, precision=shards.stacked.features.dtype.name,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_with_a_regulariser_at_the_agents_both_runtimes_run_under_noise_and_agree(precision):
    """The weight of the regulariser is a number of the program there, which is traced."""
    shards = make_shards(agents=3, precision=precision)
    made = planned_exact(shards, make_terms(), 3, where="agents")
    models = [run(made, shards, runtime=kind, seed=0).model for kind in ("simulate", "serial")]
    np.testing.assert_allclose(*models, atol=1e-10 if precision == "float64" else 1e-5)
    assert np.all(np.isfinite(run(made, shards, runtime="simulate").model))


def test_with_a_regulariser_at_the_agents_admm_reaches_the_optimum():
    shards = make_shards(agents=3)
    made = planned_exact(shards, make_terms(math.inf), 300, where="agents", clip=math.inf)
    done = run(made, shards, runtime="simulate")
    np.testing.assert_allclose(done.model, minimise(PROBLEM, shards, tol=1e-10).w, atol=1e-7)


STEP = ProximalStep(at_agents(PROBLEM, "server"), 1.0, RHO, 1.0, 1e-12)


@pytest.mark.slow
def test_a_budget_that_the_hessian_alone_exceeds_is_refused_with_the_fix():
    weak = PerturbedStep(dataclasses.replace(STEP, rho=0.01))
    shards = make_shards()
    with pytest.raises(InputError, match="larger rho"):
        plan_of(
            ADMM(PROBLEM, 0.01, regulariser_at="server"), shards, (weak,), make_terms(0.1),
            rounds=20,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("oracles", "adjacency", "words"),
    [
        ((PerturbedStep(STEP), STEP), Adjacency(ReplaceOne(), "record"), "only question"),
        ((PerturbedStep(STEP),), Adjacency(ReplaceOne(), "agent"), "one record"),
        (
            (PerturbedStep(dataclasses.replace(STEP, problem=Problem(
                Logistic(), L1(0.1)))),),
            Adjacency(ReplaceOne(), "record"),
            "smooth",
        ),
    ],
)  # fmt: skip
def test_what_no_law_is_known_for_is_refused(oracles, adjacency, words):
    with pytest.raises(InputError, match=words):
        plan_of(
            ADMM(PROBLEM, RHO, regulariser_at="server"), make_shards(), oracles,
            Terms(1.0, 1e-5, adjacency, Messages()), rounds=2, multiplier=5.0,
        )  # fmt: skip


@pytest.mark.slow
def test_an_attack_stays_below_the_certificate_and_sees_some_of_it():
    seen = audit_perturbed(epsilon=4.0, runs=2000, seed=0)
    assert seen.consistent
    assert 0.5 < seen.epsilon < seen.claimed < 4.0


@pytest.mark.slow
def test_halved_noise_inside_an_objective_is_caught():
    assert not audit_perturbed(epsilon=4.0, runs=4000, seed=0, fault="halved-noise").consistent
