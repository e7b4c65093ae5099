"""Law 7, and the papers' own formulas."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import computed, make_plan, make_shards, make_terms
from taciturn.algorithms import DPADMM, Noise, NoisyGradient
from taciturn.engine import behind_the_door, compute, run
from taciturn.engine.planning import plan
from taciturn.kernel.exact import Replay
from taciturn.kernel.questions import Gradient
from taciturn.problems import (
    L1,
    L2,
    Ball,
    Box,
    ElasticNet,
    HuberHinge,
    Logistic,
    MultinomialLogistic,
    NoRegulariser,
    Problem,
    Simplex,
    Squared,
    WholeSpace,
    minimise,
    public_facts,
)

ZOO = {
    "ridge": Problem(Squared(), L2(0.1), WholeSpace()),
    "logistic": Problem(Logistic(), L2(0.05), WholeSpace()),
    "lasso": Problem(Squared(), L1(0.05), WholeSpace()),
    "elastic-box": Problem(HuberHinge(0.5), ElasticNet(0.01, 0.1), Box(-0.3, 0.3)),
    "ball": Problem(Logistic(), L2(0.01), Ball(0.4)),
    "simplex": Problem(Squared(), L2(0.1), Simplex(1.0)),
    "classes": Problem(MultinomialLogistic(3), L2(0.1), WholeSpace()),
}


def noiseless(algorithm, problem, shards, rounds):
    made = plan(
        public_facts(problem, shards, clip=math.inf),
        algorithm,
        (Gradient(problem.loss, math.inf),),
        make_terms(math.inf),
        rounds=rounds,
        precision="float64",
    )
    return run(made, shards, runtime="simulate", keep=frozenset({"models"}))


def zoo_shards(problem):
    return make_shards(agents=3, records=15, features=4, seed=2, classes=problem.loss.outputs)


@pytest.mark.parametrize("name", sorted(ZOO))
def test_without_noise_dp_admm_reaches_the_optimum(name):
    """Its rate is linear under strong convexity: 1e-8 relative to a certified optimum."""
    problem = ZOO[name]
    shards = zoo_shards(problem)
    truth = minimise(problem, shards, tol=1e-10)
    admm = DPADMM(problem, rho=0.3, radius=None, step_rule="smooth", regulariser_at="server")
    done = noiseless(admm, problem, shards, 4000)
    gap = float(problem.objective(jnp.asarray(done.model), shards)) - truth.value
    assert abs(gap) <= 1e-8 * abs(truth.value)
    np.testing.assert_allclose(done.model, truth.w, atol=1e-4)


class WrongProx(DPADMM):
    """Planted: the aggregator's prox takes twice its step."""

    def combine(self, public, mean_message, turn):
        centre = mean_message.iterate - mean_message.dual / self.rho
        return self.problem.prox(centre, 2 / self.rho)


def test_an_algorithm_with_a_wrong_step_does_not_pass_as_converged():
    """Law 7's fault."""
    problem = ZOO["lasso"]
    shards = zoo_shards(problem)
    truth = minimise(problem, shards, tol=1e-10)
    admm = WrongProx(problem, rho=0.3, radius=None, step_rule="smooth", regulariser_at="server")
    done = noiseless(admm, problem, shards, 4000)
    gap = float(problem.objective(jnp.asarray(done.model), shards)) - truth.value
    assert gap > 1e-4 * abs(truth.value)


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
    problem = Problem(Logistic(), L1(0.01), WholeSpace())
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
    problem = Problem(Logistic(), L1(weight) if rule == "nonsmooth" else L2(weight), WholeSpace())
    admm = DPADMM(problem, rho=0.1, radius=radius, step_rule=rule, regulariser_at="agents")
    log = math.log(1.25 / delta)
    total = make_terms(epsilon=1.0, delta=delta)
    made = plan(
        public_facts(problem, shards, clip=1.0),
        admm,
        (Gradient(problem.loss, 1.0),),
        total,
        rounds=rounds,
        precision="float64",
    )
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
    model, trace = computed(made.program, behind_the_door(made, shards), keep=keep)
    exact = exact_answers(made, shards, trace)
    noise = -(np.asarray(trace.records.answer) - exact)[:, 0]
    x, y = np.asarray(shards.stacked.features), np.asarray(shards.stacked.targets)
    theirs = published(
        x, y, noise, rho=0.1, weight=weight, step=step, rounds=rounds, sign=rule == "nonsmooth"
    )
    np.testing.assert_allclose(model, theirs, atol=1e-12)


def exact_answers(made, shards, trace):
    door = Replay(made.program.oracles, behind_the_door(made, shards), trace.records.answer)
    _, replayed = compute(made.program, door, keep=frozenset())
    return np.asarray(replayed.records.exact)


def test_the_horizon_rule_reaches_the_horizon_it_names():
    shards = make_shards(agents=2, records=400, features=3)
    for epsilon in (0.01, 1.0, 50.0):
        made = make_plan("noisy-gradient", shards, terms=make_terms(epsilon), rounds=400)
        spread = np.sqrt(np.sum(made.ledger.scale[:, 0, 0] ** 2)) / 2
        wanted = math.sqrt(3) * math.sqrt(400 / 3) / spread
        step = made.schedules["step_size"][0]
        momentum = made.schedules["momentum"][0]
        assert step <= 4 * (1 + 1e-12)
        assert 0 <= momentum <= 1 - 8 / 400
        if momentum < 1 - 8 / 400 - 1e-9:
            assert 400 * step / (1 - momentum) == pytest.approx(wanted, rel=1e-9)


def test_the_tail_average_is_the_mean_of_the_last_half():
    shards = make_shards()
    made = make_plan("noisy-gradient", shards, rounds=10)
    done = run(made, shards, runtime="simulate", keep=frozenset({"publics"}))
    iterates = np.asarray(done.trace.publics.iterate)
    np.testing.assert_allclose(done.model, iterates[5:].mean(0), atol=1e-12)


def test_no_schedule_depends_on_anything_but_public_facts_and_noise():
    spec = public_facts(ZOO["ridge"], make_shards(), clip=1.0)
    noise = Noise(1.0, np.full(4, 0.3))
    for algorithm in (
        NoisyGradient(ZOO["ridge"]),
        DPADMM(ZOO["ridge"], rho=0.1, radius=None, step_rule="smooth", regulariser_at="agents"),
    ):
        first, second = (algorithm.schedule(spec, 5, noise) for _ in range(2))
        for name in first:
            np.testing.assert_array_equal(first[name], second[name])


@pytest.mark.slow
def test_an_unregularised_problem_is_accepted_everywhere():
    problem = Problem(Logistic(), NoRegulariser(), WholeSpace())
    for name in ("noisy-gradient", "dp-admm", "dp-admm-published"):
        shards = make_shards()
        done = run(make_plan(name, shards, problem=problem), shards, runtime="simulate")
        assert np.all(np.isfinite(done.model))
