"""Accelerated ADMM for structures: rates, horizon, budgets, batches, smoothing (law 7)."""

import math

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest
from typing_extensions import override

from conftest import make_terms
from taciturn.algorithms import (
    SADMM,
    AcceleratedADMM,
    AcceleratedRenyiADMM,
    AcceleratedVRADMM,
    Noise,
    Turn,
    variance_reduction,
)
from taciturn.engine import run
from taciturn.engine.credit import credits_summation
from taciturn.engine.planning import plan
from taciturn.errors import InputError
from taciturn.kernel.questions import Gradient, MinibatchGradient
from taciturn.kernel.records import Spec, pack
from taciturn.problems import (
    L1,
    Logistic,
    NoRegulariser,
    Operator,
    Problem,
    Structured,
    WholeSpace,
    fused_lasso,
    generalised_lasso,
    lasso,
    public_facts,
    smoothed_share,
    sparse_rows,
)

D, N, WEIGHT, ROUNDS = 6, 80, 0.02, 400
EDGES = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [0, 5]])
DATA = Problem(Logistic(), NoRegulariser(), WholeSpace())
FULL = (Gradient(Logistic(), 1.0),)


def records(count=N):
    draw = np.random.default_rng(0)
    x = draw.standard_normal((count, D))
    y = np.sign(x @ np.array([2, 2, 2, -1, -1, 0.0]) + draw.standard_normal(count))
    return pack(x, y, [np.arange(count)], record_norm=1.0, precision="float64", enforce="clip")


SHARDS = records()
STRUCTURES = {
    "lasso": lasso(Logistic(), D, weight=WEIGHT),
    "fused-lasso": fused_lasso(Logistic(), EDGES, D, weight=WEIGHT),
    "generalised-lasso": generalised_lasso(
        Logistic(), sparse_rows(np.diff(np.eye(D), 2, axis=0)), weight=WEIGHT
    ),
    "ridge": fused_lasso(Logistic(), EDGES, D, weight=WEIGHT, ridge=0.05),
}


def conic(problem, shards=SHARDS):
    """The optimum by a conic solver: its value, and x."""
    x, y = cp.Variable(D), cp.Variable(problem.coupling.columns)
    rows, signs = (
        np.asarray(part[0]) for part in (shards.stacked.features, shards.stacked.targets)
    )
    loss = cp.sum(cp.logistic(-cp.multiply(signs, rows @ x))) / len(signs)
    a, b = problem.forward.sparse().toarray(), problem.coupling.sparse().toarray()
    value = loss + problem.ridge / 2 * cp.sum_squares(x)
    value += problem.regulariser.weight * cp.norm1(y)
    program = cp.Problem(cp.Minimize(value), [a @ x + b @ y == np.asarray(problem.target)])
    # without refinement it stops early on some data, and says so
    refined = {f"iterative_refinement_{kind}tol": 1e-14 for kind in ("rel", "abs")}
    refined["iterative_refinement_max_iter"] = 50
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
    program.solve(solver=cp.CLARABEL, **tight, **refined)
    return float(program.value), x.value


def done(algorithm, oracles, rounds, *, shards=SHARDS, epsilon=math.inf, seed=None):
    made = plan(
        public_facts(DATA, shards, clip=1.0), algorithm, oracles, make_terms(epsilon),
        rounds=rounds, precision="float64",
    )  # fmt: skip
    return np.asarray(run(made, shards, runtime="simulate", seed=seed).model), made


def gap(problem, model, optimum, shards=SHARDS):
    return float(problem.composed.objective(jnp.asarray(model), shards)) - optimum


def rate(algorithm, schedules, x, variance=0.0):
    """The bound that the docstring proves, in the norm of the smoothing."""
    problem, t = algorithm.problem, len(schedules["step_size"])
    stiffness = (np.arange(1, t + 1) / schedules["step_size"])[0]
    norm = problem.forward.norm_squared()
    pull = schedules["rho"][-1] * norm
    size = x @ x + algorithm.smoothing * np.sum((np.roll(x, 1) - x) ** 2)
    slope = problem.regulariser.gradient_bound(problem.forward.rows)
    ending = norm * slope**2 / (pull * (t + 1)) + (2 * t + 1) * variance / (
        3 * (stiffness - t * pull)
    )
    return stiffness * size / (t * (t + 1)) + ending


def check_rate(name, smoothing):
    problem = STRUCTURES[name]
    algorithm = AcceleratedADMM(problem, smoothing)
    best, x = conic(problem)
    model, made = done(algorithm, FULL, ROUNDS)
    left = gap(problem, model, best)
    assert -1e-9 <= left <= rate(algorithm, made.schedules, x)
    assert left <= 2e-3 * best


def test_without_noise_the_fused_lasso_reaches_the_conic_optimum_at_the_proved_rate():
    check_rate("fused-lasso", 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("smoothing", [0.0, 2.0])
def test_without_noise_every_structure_reaches_the_conic_optimum_at_the_proved_rate(
    name, smoothing
):
    check_rate(name, smoothing)


def test_a_wrong_adjoint_does_not_reach_it():
    class Wrong(Operator):
        inner: Operator

        rows = property(lambda self: self.inner.rows)
        columns = property(lambda self: self.inner.columns)

        @override
        def apply(self, x):
            return self.inner.apply(x)

        @override
        def adjoint(self, z):
            return -self.inner.adjoint(z)

        @override
        def sparse(self):
            return self.inner.sparse()

    problem = STRUCTURES["fused-lasso"]
    broken = AcceleratedADMM(generalised_lasso(Logistic(), Wrong(problem.forward), weight=WEIGHT))
    model, _ = done(broken, FULL, ROUNDS)
    best, _ = conic(problem)
    assert gap(problem, model, best) > 2e-3 * best


@pytest.mark.slow
def test_the_exact_step_and_variance_reduction_reach_the_same_optimum():
    problem = STRUCTURES["lasso"]
    best, _ = conic(problem)
    oracles, noise = variance_reduction(Logistic(), clip=1.0, spread=1.0, rate=1.0, inner=9)
    reduced = AcceleratedVRADMM(problem, inner=9, snapshot_noise=noise)
    for algorithm, questions in ((AcceleratedRenyiADMM(problem), FULL), (reduced, oracles)):
        model, _ = done(algorithm, questions, 2000)
        assert gap(problem, model, best) < 1e-4 * best


@pytest.mark.slow
def test_a_general_b_and_c_are_split_by_a_linearised_step():
    draw = np.random.default_rng(1)
    coupling, target = draw.standard_normal((4, 4)), jnp.asarray(draw.standard_normal(4))
    forward = sparse_rows(draw.standard_normal((4, D)))
    problem = Structured(Logistic(), L1(WEIGHT), forward, sparse_rows(coupling), target)
    best, _ = conic(problem)
    model, _ = done(AcceleratedADMM(problem), FULL, 20_000)
    y = np.linalg.solve(coupling, target - forward.apply(jnp.asarray(model)))
    value = float(DATA.objective(jnp.asarray(model), SHARDS)) + WEIGHT * np.sum(np.abs(y))
    assert abs(value / best - 1) < 1e-3


@pytest.mark.slow
def test_on_batches_without_noise_the_gap_keeps_the_rate_that_their_variance_allows():
    problem = STRUCTURES["fused-lasso"]
    best, x = conic(problem)
    oracles = (MinibatchGradient(Logistic(), 1.0, 0.1),)
    algorithm = AcceleratedADMM(problem)
    gaps = []
    for rounds in (100, 1600, 6400):
        drawn = [done(algorithm, oracles, rounds, seed=seed) for seed in range(4)]
        gaps.append(np.mean([gap(problem, model, best) for model, _ in drawn]))
        assert gaps[-1] <= rate(algorithm, drawn[0][1].schedules, x, 0.9 / (0.1 * N))
    assert gaps[2] < gaps[0] / 4
    reduced, noise = variance_reduction(Logistic(), clip=1.0, spread=1.0, rate=0.1, inner=20)
    model, _ = done(AcceleratedVRADMM(problem, inner=20, snapshot_noise=noise), reduced, 4200)
    assert gap(problem, model, best) < gaps[0] / 4


def horizon_and_noise(spread, count, seeds=400):
    """How far a constant gradient moves the model, and how far noise alone does."""
    algorithm = AcceleratedADMM(lasso(Logistic(), 1, weight=0.0))
    facts = Spec((100,), (1,), record_norm=1.0, gradient_bound=1.0, smoothness=0.25)
    values = algorithm.schedule(facts, count, Noise(1.0, np.array([spread])))
    draw = np.random.default_rng(0)
    gradients = np.concatenate([np.ones((1, count)), spread * draw.standard_normal((seeds, count))])
    at = algorithm.first(jnp.zeros(1))
    turn = Turn(*[jnp.zeros(())] * 7, values={})
    moved = []
    x, model = np.zeros(seeds + 1), np.zeros(seeds + 1)
    for t in range(count):
        x = x - values["step_size"][t] * gradients[:, t]
        model = model + values["momentum"][t] * (x - model)
    for t in range(3):  # the algorithm does the same
        turn = turn._replace(values={k: jnp.asarray(v[t]) for k, v in values.items()})
        at = algorithm.advance(at, jnp.ones(1), turn)
        moved.append(float(at.average[0]))
    assert moved[0] == pytest.approx(-values["step_size"][0])
    return -model[0], float(np.std(model[1:]))


def test_a_flat_direction_moves_by_the_horizon_and_its_noise_by_one_in_a_margin():
    """One column, records of norm 1: noise of 1.1 in a margin, at whatever number of rounds."""
    for count in (50, 200):
        spread = 0.3 * math.sqrt(count / 50)
        moved, noise = horizon_and_noise(spread, count)
        assert moved == pytest.approx(math.sqrt(count) / spread, rel=0.05)
        assert noise == pytest.approx(1.1, rel=0.12)


def gap_at(algorithm, shards, best, epsilon, seeds=6):
    drawn = [
        done(algorithm, FULL, 100, shards=shards, epsilon=epsilon, seed=seed)[0]
        for seed in range(seeds)
    ]
    return float(np.mean([gap(algorithm.problem, model, best, shards) for model in drawn]))


def test_the_gap_falls_as_the_budget_grows_and_that_of_the_printed_form_stays():
    shards, problem = records(4000), lasso(Logistic(), D, weight=1e-4)
    best, _ = conic(problem, shards)
    small, middle, large = (
        gap_at(AcceleratedADMM(problem), shards, best, epsilon, seeds=3)
        for epsilon in (0.05, 0.5, 5.0)
    )
    assert middle < 0.5 * small
    assert large < 0.5 * middle
    assert gap_at(SADMM(problem), shards, best, 5.0, seeds=1) > 10 * large


@pytest.mark.slow
def test_smoothing_pays_where_neighbouring_weights_are_alike_and_harms_where_they_are_not():
    """A wave around 64 columns passes the criterion of the docstring; shuffled it fails it."""
    columns, count, strength = 64, 3000, 8.0
    draw = np.random.default_rng(0)
    wave = np.sin(2 * math.pi * np.arange(columns) / columns)
    x = draw.standard_normal((count, columns))
    y = np.sign(x @ wave + draw.standard_normal(count))
    order = draw.permutation(columns)
    limit = 1 / smoothed_share(columns, strength)
    gaps = {}
    for name, places in (("in order", np.arange(columns)), ("shuffled", order)):
        shards = pack(
            x[:, places], y, [np.arange(count)], record_norm=8.0, precision="float64",
            enforce="clip",
        )  # fmt: skip
        best = wave[places]
        rough = 1 + strength * np.sum((np.roll(best, 1) - best) ** 2) / (best @ best)
        assert (rough < limit) == (name == "in order")
        for v in (0.0, strength):
            algorithm = AcceleratedADMM(lasso(Logistic(), columns, weight=1e-5), v)
            gaps[name, v] = np.mean([
                float(DATA.objective(jnp.asarray(model), shards))
                for model in (
                    done(algorithm, FULL, 100, shards=shards, epsilon=0.3, seed=seed)[0]
                    for seed in range(8)
                )
            ])  # fmt: skip
    assert gaps["in order", strength] < gaps["in order", 0.0]
    assert gaps["shuffled", strength] > gaps["shuffled", 0.0]


class Remembers(AcceleratedADMM):
    """Planted fault: the message is the sum of the last two answers."""

    def tell(self, state, inbox, turn, answer):
        return answer + 0.5 * state


def test_momentum_keeps_the_credit_for_summation_and_memory_of_answers_loses_it():
    """The query is public: an agent's message is its fresh answer alone."""
    shards = pack(
        np.eye(4, D), np.ones(4), np.split(np.arange(4), 2), record_norm=1.0,
        precision="float64", enforce="clip",
    )  # fmt: skip
    facts, structure = public_facts(DATA, shards, clip=1.0), STRUCTURES["lasso"]
    oracles, noise = variance_reduction(Logistic(), clip=1.0, spread=1.0, rate=1.0, inner=2)
    for algorithm, questions, credited in (
        (AcceleratedADMM(structure), FULL, True),
        (AcceleratedVRADMM(structure, inner=2, snapshot_noise=noise), oracles, True),
        (Remembers(structure), FULL, False),
    ):
        made = plan(facts, algorithm, questions, make_terms(), rounds=3, precision="float64")
        assert credits_summation(made.program) == credited


def test_bad_settings_are_refused_in_one_line():
    with pytest.raises(InputError, match="smoothing is -1"):
        AcceleratedADMM(STRUCTURES["lasso"], -1.0)
    with pytest.raises(InputError, match="radius is 0"):
        AcceleratedADMM(STRUCTURES["lasso"], radius=0.0)
    with pytest.raises(InputError, match="A takes 5 numbers"):
        done(AcceleratedADMM(lasso(Logistic(), 5, weight=1.0)), FULL, 2)
    with pytest.raises(InputError, match="whole number of epochs"):
        done(AcceleratedVRADMM(STRUCTURES["lasso"], inner=9), FULL, 15)
