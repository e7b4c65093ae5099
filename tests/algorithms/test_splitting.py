"""f(x) + r(y) subject to A x + B y = c: certified optima, rates, budgets, batches, smoothing."""

import dataclasses
import functools
import math

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import make_terms, packed, plan_of
from taciturn.algorithms import (
    SADMM,
    VRADMM,
    AcceleratedADMM,
    AcceleratedVRADMM,
    Composition,
    RateWarning,
    variance_reduction,
)
from taciturn.algorithms.splitting import least_norm
from taciturn.audit import audit
from taciturn.calibration import mu_of
from taciturn.engine import run
from taciturn.engine.credit import credits_summation
from taciturn.engine.planning import plan
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.questions import Gradient, MinibatchDifference, MinibatchGradient
from taciturn.problems import (
    L1,
    ComposedL1,
    HuberHinge,
    Identity,
    Logistic,
    MultinomialLogistic,
    Problem,
    Structured,
    chain,
    differences,
    fused_lasso,
    generalised_lasso,
    laplacian_smooth,
    lasso,
    minimise,
    public_facts,
    smoothed_share,
    sparse_rows,
)

D, N, WEIGHT, ROUNDS = 6, 80, 0.02, 400
EDGES = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [0, 5]])
DATA = Problem(Logistic())
FULL = (Gradient(Logistic(), 1.0),)


def records(count=N):
    draw = np.random.default_rng(0)
    x = draw.standard_normal((count, D))
    y = np.sign(x @ np.array([2, 2, 2, -1, -1, 0.0]) + draw.standard_normal(count))
    return packed(x, y, [np.arange(count)])


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


best = functools.cache(lambda name: conic(STRUCTURES[name]))


def done(algorithm, oracles, rounds, *, shards=SHARDS, epsilon=math.inf, seed=None):
    made = plan_of(algorithm, shards, oracles, make_terms(epsilon), problem=DATA, rounds=rounds)
    keep = frozenset({"publics"})
    return run(made, shards, runtime="simulate", seed=seed, keep=keep), made


def gap(problem, model, optimum, shards=SHARDS):
    return float(problem.composed.objective(jnp.asarray(model), shards)) - optimum


def gap_and_residual(finished, problem, optimum):
    """How far value and constraint are off at the last pair of iterates."""
    last = jax.tree.map(lambda leaf: leaf[-1], finished.trace.publics.iterate)
    loss = float(DATA.objective(last.x, SHARDS)) + problem.ridge / 2 * float(last.x @ last.x)
    value = loss + float(problem.regulariser.value(last.y))
    return abs(value / optimum - 1), float(jnp.linalg.norm(problem.residual(last.x, last.y)))


def reduced(problem, *, rate, inner, kind=VRADMM, **options):
    oracles, noise = variance_reduction(Logistic(), clip=1.0, spread=1.0, rate=rate, inner=inner)
    return kind(problem, inner=inner, snapshot_noise=noise, **options), oracles


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


# law 7; with batches of all records in `test_every_method`


@pytest.mark.slow
@pytest.mark.parametrize("name", STRUCTURES)
def test_without_noise_every_structure_reaches_the_conic_optimum_at_the_proved_rate(name):
    problem, (optimum, x) = STRUCTURES[name], best(name)
    for smoothing in (0.0, 2.0):
        algorithm = AcceleratedADMM(problem, smoothing)
        finished, made = done(algorithm, FULL, ROUNDS)
        left = gap(problem, finished.model, optimum)
        assert -1e-9 <= left <= rate(algorithm, made.schedules, x)
        assert left <= 2e-3 * optimum
    for algorithm, oracles in (
        (SADMM(problem, smoothing=2.0), FULL), reduced(problem, rate=1.0, inner=9),
    ):  # fmt: skip
        away, residual = gap_and_residual(done(algorithm, oracles, 6000)[0], problem, optimum)
        assert away < 1e-7
        assert residual < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rounds", "close"), [(SADMM, 60_000, 1e-6), (AcceleratedADMM, 20_000, 1e-3)]
)
def test_a_general_b_and_c_are_split_by_a_linearised_step(kind, rounds, close):
    draw = np.random.default_rng(1)
    coupling, target = draw.standard_normal((4, 4)), jnp.asarray(draw.standard_normal(4))
    forward = sparse_rows(draw.standard_normal((4, D)))
    problem = Structured(Logistic(), L1(WEIGHT), forward, sparse_rows(coupling), target)
    model = jnp.asarray(done(kind(problem), FULL, rounds)[0].model)
    y = np.linalg.solve(coupling, target - forward.apply(model))
    value = float(DATA.objective(model, SHARDS)) + WEIGHT * np.sum(np.abs(y))
    assert abs(value / conic(problem)[0] - 1) < close


@pytest.mark.slow
def test_on_batches_the_gap_keeps_the_rate_of_their_variance_and_svrg_removes_it():
    name = "fused-lasso"
    problem, (optimum, x) = STRUCTURES[name], best(name)
    oracles, algorithm = (MinibatchGradient(Logistic(), 1.0, 0.1),), AcceleratedADMM(problem)
    gaps = []
    for count in (100, 1600, 6400):
        drawn = [done(algorithm, oracles, count, seed=seed) for seed in range(4)]
        gaps.append(np.mean([gap(problem, one.model, optimum) for one, _ in drawn]))
        # of a batch: (1 - q) / (q m) times the mean square of a record's gradient
        assert gaps[-1] <= rate(algorithm, drawn[0][1].schedules, x, 0.9 / (0.1 * N))
    assert gaps[2] < gaps[0] / 4
    faster, oracles = reduced(problem, rate=0.1, inner=20, kind=AcceleratedVRADMM)
    model = done(faster, oracles, 4200)[0].model
    assert gap(problem, model, optimum) < gaps[0] / 4
    exact, oracles = reduced(problem, rate=0.1, inner=39)
    away, residual = gap_and_residual(done(exact, oracles, 8000, seed=0)[0], problem, optimum)
    assert away < 1e-7
    assert residual < 1e-8


@pytest.mark.slow
def test_restarts_converge_where_a_has_full_row_rank_and_do_not_where_it_has_not():
    square = lasso(Logistic(), D, weight=WEIGHT, ridge=0.05)
    finished, _ = done(*reduced(square, rate=1.0, inner=199, restart=True), 6000)
    assert gap_and_residual(finished, square, conic(square)[0])[1] < 1e-8
    algorithm, oracles = reduced(STRUCTURES["ridge"], rate=1.0, inner=199, restart=True)
    with pytest.warns(RateWarning, match="full row rank"):
        finished, _ = done(algorithm, oracles, 6000)
    jumps = np.linalg.norm(np.diff(np.asarray(finished.trace.publics.iterate.x), axis=0), axis=1)
    assert np.max(jumps[-400:]) > 1e-4  # still thrown off at the last openings


# the certified optimum of a structure, and its parts


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lasso", "fused-lasso", "ridge"])
def test_the_certified_gap_holds_against_a_conic_solver_and_is_small(name):
    found = minimise(STRUCTURES[name].composed, SHARDS, tol=1e-7)
    assert found.gap_bound <= 1e-7 * found.value
    assert -1e-10 <= found.value - best(name)[0] <= found.gap_bound + 1e-10


@pytest.mark.parametrize("ridge", [pytest.param(0.0, marks=pytest.mark.slow), 0.01])
def test_the_optimum_of_a_loss_with_straight_pieces_is_certified(ridge):
    # at the start no record has curvature
    for problem in (
        lasso(HuberHinge(0.05), D, weight=WEIGHT, ridge=ridge),
        fused_lasso(HuberHinge(0.05), EDGES, D, weight=WEIGHT, ridge=ridge),
    ):
        found = minimise(problem.composed, SHARDS, tol=1e-7)
        assert found.gap_bound <= 1e-7 * found.value
        assert found.value < float(problem.composed.objective(jnp.zeros(D), SHARDS))


@pytest.mark.slow
def test_no_gap_is_certified_where_nothing_bounds_the_solution():
    with pytest.raises(InputError, match="duality gap is inf"):
        minimise(STRUCTURES["generalised-lasso"].composed, SHARDS, tol=1e-7)


def test_the_composed_prox_meets_its_variational_inequality():
    composed = STRUCTURES["ridge"].composed.regulariser
    draw = np.random.default_rng(0)
    v = jnp.asarray(draw.standard_normal(D))
    found = composed.prox(v, 0.7)
    value = jax.jit(jax.vmap(lambda x: composed.value(x) + jnp.sum((x - v) ** 2) / 1.4))
    others = found + 0.1 * draw.standard_normal((200, D)) * draw.random((200, 1)) ** 3
    assert np.min(value(others)) >= value(found[None])[0] - 1e-12


OPERATORS = [
    Identity(D, -2.0),
    chain(D),
    differences(EDGES, D),
    sparse_rows(np.diff(np.eye(D), 2, axis=0)),
    fused_lasso(Logistic(), EDGES, D, weight=1.0).forward,
]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda o: type(o).__name__)
def test_an_operator_is_its_matrix_and_the_restarts_dual_its_pseudo_inverse(operator):
    matrix = operator.sparse().toarray()
    draw = np.random.default_rng(0)
    x, z = draw.standard_normal(operator.columns), draw.standard_normal(operator.rows)
    np.testing.assert_allclose(operator.apply(jnp.asarray(x)), matrix @ x, atol=1e-12)
    np.testing.assert_allclose(operator.adjoint(jnp.asarray(z)), matrix.T @ z, atol=1e-12)
    largest = np.linalg.norm(matrix, 2) ** 2
    assert largest <= operator.norm_squared() * (1 + 1e-12) <= largest * (1 + 1e-6)
    assert operator.full_row_rank() == (np.linalg.matrix_rank(matrix) == operator.rows)
    problem = generalised_lasso(Logistic(), operator, weight=1.0)
    dual = least_norm(problem, jnp.asarray(x))
    np.testing.assert_allclose(dual, -np.linalg.pinv(matrix.T) @ x, atol=1e-9)


@pytest.mark.parametrize("size", [5, 8])
def test_smoothing_inverts_the_periodic_laplacian(size):
    shift = np.roll(np.eye(size), 1, axis=0)
    matrix = np.eye(size) - 1.7 * (shift + shift.T - 2 * np.eye(size))
    x = np.random.default_rng(0).standard_normal(size)
    np.testing.assert_allclose(
        laplacian_smooth(jnp.asarray(x), 1.7), np.linalg.solve(matrix, x), atol=1e-12
    )


def test_bad_structures_are_refused_in_one_line():
    with pytest.raises(InputError, match="A has 6 rows, B 5 and c 6"):
        Structured(Logistic(), L1(1.0), Identity(6), Identity(5), jnp.zeros(6))
    with pytest.raises(InputError, match="one margin"):
        lasso(MultinomialLogistic(3), 4, weight=1.0)
    for kind in (SADMM, AcceleratedADMM):
        with pytest.raises(InputError, match="smoothing is -1"):
            kind(STRUCTURES["lasso"], smoothing=-1.0)
        with pytest.raises(InputError, match="A takes 5 numbers"):
            done(kind(lasso(Logistic(), 5, weight=1.0)), FULL, 2)
    with pytest.raises(InputError, match="radius is 0"):
        AcceleratedADMM(STRUCTURES["lasso"], radius=0.0)
    for kind in (VRADMM, AcceleratedVRADMM):
        with pytest.raises(InputError, match="whole number of epochs"):
            done(*reduced(STRUCTURES["lasso"], rate=1.0, inner=9, kind=kind), 15)
    with pytest.raises(InputError, match="ridge is -1"):
        lasso(Logistic(), 4, weight=1.0, ridge=-1.0)
    with pytest.raises(InputError, match="from 0 to 2"):
        differences(np.array([[0, 3]]), 3)
    with pytest.raises(InputError, match="itself"):
        differences(np.array([[1, 1]]), 3)
    other = Structured(Logistic(), L1(1.0), Identity(6), Identity(6), jnp.zeros(6))
    with pytest.raises(InputError, match="B = -I"):
        _ = other.composed
    assert isinstance(STRUCTURES["lasso"].composed.regulariser, ComposedL1)


# how far noise lets a run move


@pytest.mark.slow
def test_smoothing_pays_where_neighbouring_weights_are_alike_and_harms_where_they_are_not():
    """A wave around 64 columns passes the criterion of the docstring; shuffled it fails it."""
    columns, count, strength = 64, 3000, 8.0
    draw = np.random.default_rng(0)
    wave = np.sin(2 * math.pi * np.arange(columns) / columns)
    x = draw.standard_normal((count, columns))
    y = np.sign(x @ wave + draw.standard_normal(count))
    limit = 1 / smoothed_share(columns, strength)
    for places, pays in ((np.arange(columns), True), (draw.permutation(columns), False)):
        shards = packed(x[:, places], y, [np.arange(count)], record_norm=8.0)
        weights = wave[places]
        rough = np.sum((np.roll(weights, 1) - weights) ** 2) / (weights @ weights)
        assert (1 + strength * rough < limit) == pays
        plain, smooth = (
            np.mean([
                float(DATA.objective(jnp.asarray(done(
                    AcceleratedADMM(lasso(Logistic(), columns, weight=1e-5), v), FULL, 100,
                    shards=shards, epsilon=0.3, seed=seed,
                )[0].model), shards))
                for seed in range(8)
            ])
            for v in (0.0, strength)
        )  # fmt: skip
        assert (smooth < plain) == pays


# what snapshots and differences cost


class Remembers(AcceleratedADMM):
    """Planted fault: the message is the sum of the last two answers."""

    def tell(self, state, inbox, turn, answer):
        return answer + 0.5 * state


def test_momentum_keeps_the_credit_for_summation_and_memory_of_answers_loses_it(shards):
    facts = public_facts(DATA, shards, clip=1.0)
    for kind, credited in ((AcceleratedADMM, True), (Remembers, False)):
        algorithm = kind(lasso(Logistic(), 3, weight=WEIGHT))
        made = plan(facts, algorithm, FULL, make_terms(), rounds=3, precision="float64")
        assert credits_summation(made.program) == credited


def planned(shards, *, rate, inner=4, epochs=5, epsilon=1.0, **options):
    oracles, noise = variance_reduction(Logistic(), clip=0.5, spread=0.5, rate=rate, inner=inner)
    structure = generalised_lasso(Logistic(), chain(3), weight=0.01)
    algorithm = VRADMM(structure, inner=inner, snapshot_noise=noise, **options)
    return plan_of(
        algorithm, shards, oracles, make_terms(epsilon), problem=DATA, clip=0.5,
        rounds=epochs * algorithm.epoch,
    )  # fmt: skip


def test_on_full_batches_the_split_budget_adds_up_to_the_exact_mu(shards):
    made = planned(shards, rate=1.0)
    assert made.certificate.mu == pytest.approx(mu_of(1.0, 1e-5), rel=1e-5)
    assert made.certificate.epsilon <= 1.0
    ratios = made.ledger.ratios()[0, :, 0]
    assert math.sqrt(np.sum(ratios**2)) == pytest.approx(made.certificate.mu, rel=1e-12)
    assert ratios[0] / ratios[1] == pytest.approx(2.0)  # z_s / z_d = sqrt(1 / m) / q = 1/2
    assert np.sum(made.ledger.kind[0] == 1) == 5


def test_a_snapshot_with_less_noise_than_planned_releases_nothing(shards):
    made = planned(shards, rate=1.0, epochs=2)
    program = dataclasses.replace(made.program, scales=made.program.scales.at[0].multiply(0.5))
    with pytest.raises(PrivacyError, match="round 0"):
        run(dataclasses.replace(made, program=program), shards, runtime="simulate", seed=0)


def audited(kind, ridge):
    """Return a method that solves a lasso by steps that are computed on all records."""

    def made(problem):
        structure = lasso(problem.loss, 5, weight=0.1, ridge=ridge)
        if kind in (SADMM, AcceleratedADMM):
            return kind(structure, smoothing=2.0)
        oracles, noise = variance_reduction(problem.loss, clip=1.0, spread=2.0, rate=1.0, inner=4)
        restart = {"restart": ridge > 0} if kind is VRADMM else {}
        return Composition(kind(structure, 2.0, inner=4, snapshot_noise=noise, **restart), oracles)

    return made


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SADMM, VRADMM, AcceleratedADMM, AcceleratedVRADMM])
def test_replay_residuals_messages_and_likelihood_find_no_fault_and_halved_noise_is_caught(kind):
    report = audit(audited(kind, 0.1), mu=1.5, runs=300, seed=0)
    assert report.verdict == "consistent"
    assert 0.4 < report.likelihood.mu <= report.claimed_mu
    halved = audit(audited(kind, 0.0), mu=1.5, runs=20, seed=0, fault="halved-noise")
    assert halved.layers["residuals"] == "violated"


@pytest.mark.slow
def test_the_published_un_noised_restart_is_caught():
    report = audit(audited(VRADMM, 0.1), mu=1.5, runs=20, seed=0, fault="clear-restart")
    assert report.layers["messages"] == "violated"
    assert report.verdict == "violated"


def test_a_spread_in_the_last_digits_of_a_coefficient_is_refused():
    MinibatchDifference(Logistic(), 1.0, 0.25, spread=2.0**-20)
    with pytest.raises(InputError, match="spread"):
        MinibatchDifference(Logistic(), 1.0, 0.25, spread=2.0**-21)
