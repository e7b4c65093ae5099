"""f(x) + r(y) subject to A x + B y = c: operators, convergence, errors (laws 7, 8)."""

import math

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typing_extensions import override

from conftest import make_terms
from taciturn.algorithms import SADMM, VRADMM, RateWarning, RenyiADMM, variance_reduction
from taciturn.algorithms.splitting import least_norm
from taciturn.engine import run
from taciturn.engine.planning import plan
from taciturn.errors import InputError
from taciturn.kernel.questions import Gradient, MinibatchGradient
from taciturn.kernel.records import pack
from taciturn.problems import (
    L1,
    ComposedL1,
    HuberHinge,
    Identity,
    Logistic,
    MultinomialLogistic,
    NoRegulariser,
    Operator,
    Problem,
    Structured,
    WholeSpace,
    chain,
    differences,
    fused_lasso,
    generalised_lasso,
    laplacian_smooth,
    lasso,
    minimise,
    public_facts,
    sparse_rows,
)

D, N, WEIGHT = 6, 80, 0.02
EDGES = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [0, 5]])
DATA = Problem(Logistic(), NoRegulariser(), WholeSpace())


def records():
    draw = np.random.default_rng(0)
    x = draw.standard_normal((N, D))
    y = np.sign(x @ np.array([2, 2, 2, -1, -1, 0.0]) + draw.standard_normal(N))
    return pack(x, y, [np.arange(N)], record_norm=1.0, precision="float64", enforce="clip")


SHARDS = records()
STRUCTURES = {
    "lasso": lasso(Logistic(), D, weight=WEIGHT),
    "fused-lasso": fused_lasso(Logistic(), EDGES, D, weight=WEIGHT),
    "generalised-lasso": generalised_lasso(
        Logistic(), sparse_rows(np.diff(np.eye(D), 2, axis=0)), weight=WEIGHT
    ),
    "ridge": fused_lasso(Logistic(), EDGES, D, weight=WEIGHT, ridge=0.05),
}


def conic(problem):
    """The optimum by a conic solver, in x and y."""
    x, y = cp.Variable(D), cp.Variable(problem.coupling.columns)
    rows, signs = (
        np.asarray(part[0]) for part in (SHARDS.stacked.features, SHARDS.stacked.targets)
    )
    loss = cp.sum(cp.logistic(-cp.multiply(signs, rows @ x))) / N
    a, b = problem.forward.sparse().toarray(), problem.coupling.sparse().toarray()
    weight = problem.regulariser.weight
    value = loss + problem.ridge / 2 * cp.sum_squares(x) + weight * cp.norm1(y)
    program = cp.Problem(cp.Minimize(value), [a @ x + b @ y == np.asarray(problem.target)])
    # without refinement it stops early on some data, and says so
    refined = {f"iterative_refinement_{kind}tol": 1e-14 for kind in ("rel", "abs")}
    refined["iterative_refinement_max_iter"] = 50
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
    program.solve(solver=cp.CLARABEL, **tight, **refined)
    return float(program.value)


def exact(algorithm, oracles, rounds, seed=None):
    made = plan(
        public_facts(DATA, SHARDS, clip=math.inf), algorithm, oracles,
        make_terms(math.inf), rounds=rounds, precision="float64",
    )  # fmt: skip
    return run(made, SHARDS, runtime="simulate", seed=seed, keep=frozenset({"publics"}))


def gap_and_residual(done, problem, optimum):
    last = jax.tree.map(lambda leaf: leaf[-1], done.trace.publics.iterate)
    loss = float(DATA.objective(last.x, SHARDS)) + problem.ridge / 2 * float(last.x @ last.x)
    value = loss + float(problem.regulariser.value(last.y))
    return abs(value / optimum - 1), float(jnp.linalg.norm(problem.residual(last.x, last.y)))


def reduced(problem, *, rate, inner, **options):
    oracles, noise = variance_reduction(
        problem.loss, clip=math.inf, spread=math.inf, rate=rate, inner=inner
    )
    return VRADMM(problem, inner=inner, snapshot_noise=noise, **options), oracles


FULL = (Gradient(Logistic(), math.inf),)


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("smoothing", [0.0, 2.0])
def test_without_noise_sadmm_reaches_the_certified_optimum_of_every_structure(name, smoothing):
    problem = STRUCTURES[name]
    done = exact(SADMM(problem, smoothing=smoothing), FULL, 5000)
    gap, residual = gap_and_residual(done, problem, conic(problem))
    assert gap < 1e-7
    assert residual < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("name", STRUCTURES)
def test_without_noise_vradmm_reaches_the_certified_optimum_of_every_structure(name):
    problem = STRUCTURES[name]
    done = exact(*reduced(problem, rate=1.0, inner=9), 6000)
    gap, residual = gap_and_residual(done, problem, conic(problem))
    assert gap < 1e-7
    assert residual < 1e-8


@pytest.mark.slow
def test_a_general_b_and_c_are_split_by_a_linearised_step():
    draw = np.random.default_rng(1)
    coupling, target = draw.standard_normal((4, 4)), jnp.asarray(draw.standard_normal(4))
    forward = sparse_rows(draw.standard_normal((4, D)))
    problem = Structured(Logistic(), L1(WEIGHT), forward, sparse_rows(coupling), target)
    gap, residual = gap_and_residual(exact(SADMM(problem), FULL, 60_000), problem, conic(problem))
    assert gap < 1e-6
    assert residual < 1e-8


def test_the_renyi_form_of_the_lasso_reaches_the_same_optimum():
    problem = STRUCTURES["lasso"]
    gap, residual = gap_and_residual(exact(RenyiADMM(problem), FULL, 4000), problem, conic(problem))
    assert gap < 1e-7
    assert residual < 1e-8


@pytest.mark.slow
def test_restarts_converge_where_a_has_full_row_rank_and_do_not_where_it_has_not():
    square = lasso(Logistic(), D, weight=WEIGHT, ridge=0.05)
    done = exact(*reduced(square, rate=1.0, inner=199, restart=True), 6000)
    assert gap_and_residual(done, square, conic(square))[1] < 1e-8
    tall = STRUCTURES["ridge"]
    algorithm, oracles = reduced(tall, rate=1.0, inner=199, restart=True)
    with pytest.warns(RateWarning, match="full row rank"):
        done = exact(algorithm, oracles, 6000)
    iterates = np.asarray(done.trace.publics.iterate.x)
    jumps = np.linalg.norm(np.diff(iterates, axis=0), axis=1)
    assert np.max(jumps[-400:]) > 1e-4  # still thrown off at the last openings


def test_a_wrong_adjoint_does_not_pass_as_converged():
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

    problem = STRUCTURES["generalised-lasso"]
    broken = generalised_lasso(Logistic(), Wrong(problem.forward), weight=WEIGHT)
    gap, residual = gap_and_residual(exact(SADMM(broken), FULL, 5000), broken, conic(problem))
    assert not (gap < 1e-7 and residual < 1e-8)


@pytest.mark.slow
def test_on_batches_without_noise_the_gap_falls_as_the_method_proves():
    """STOC-ADMM: 1/sqrt(T) at least; SVRG-ADMM: to rounding."""
    problem = STRUCTURES["fused-lasso"]
    optimum, composed, rounds = conic(problem), problem.composed, (100, 400, 1600, 6400)
    oracles = (MinibatchGradient(Logistic(), math.inf, 0.1),)

    def gap(count, seed):
        model = exact(SADMM(problem), oracles, count, seed).model
        return float(composed.objective(jnp.asarray(model), SHARDS)) - optimum

    gaps = [np.mean([gap(count, seed) for seed in range(4)]) for count in rounds]
    slope = np.polyfit(np.log(rounds), np.log(gaps), 1)[0]
    assert -1.5 < slope < -0.45
    algorithm, oracles = reduced(problem, rate=0.1, inner=39)
    gap, residual = gap_and_residual(exact(algorithm, oracles, 8000, 0), problem, optimum)
    assert gap < 1e-7
    assert residual < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lasso", "fused-lasso", "ridge"])
def test_the_certified_gap_holds_against_a_conic_solver_and_is_small(name):
    problem = STRUCTURES[name]
    found = minimise(problem.composed, SHARDS, tol=1e-7)
    assert found.gap_bound <= 1e-7 * found.value
    assert found.value - conic(problem) <= found.gap_bound + 1e-10
    assert found.value - conic(problem) >= -1e-10


@pytest.mark.parametrize("width", [0.5, 0.05])
@pytest.mark.parametrize("ridge", [0.0, 0.01])
def test_the_optimum_of_a_loss_with_straight_pieces_is_certified(width, ridge):
    # at the start no record has curvature
    for problem in (
        lasso(HuberHinge(width), D, weight=WEIGHT, ridge=ridge),
        fused_lasso(HuberHinge(width), EDGES, D, weight=WEIGHT, ridge=ridge),
    ):
        found = minimise(problem.composed, SHARDS, tol=1e-7)
        assert found.gap_bound <= 1e-7 * found.value
        assert found.value < float(problem.composed.objective(jnp.zeros(D), SHARDS))


@pytest.mark.slow
def test_no_gap_is_certified_where_nothing_bounds_the_solution():
    with pytest.raises(InputError, match="duality gap is inf"):
        minimise(STRUCTURES["generalised-lasso"].composed, SHARDS, tol=1e-7)


@pytest.mark.slow
def test_the_composed_prox_meets_its_variational_inequality():
    composed = STRUCTURES["ridge"].composed.regulariser
    draw = np.random.default_rng(0)
    v = jnp.asarray(draw.standard_normal(D))
    best = composed.prox(v, 0.7)

    def value(x):
        return float(composed.value(x) + jnp.sum((x - v) ** 2) / 1.4)

    others = best + 0.1 * draw.standard_normal((200, D)) * draw.random((200, 1)) ** 3
    assert min(value(x) for x in others) >= value(best) - 1e-12


OPERATORS = [
    Identity(D, -2.0),
    chain(D),
    differences(EDGES, D),
    sparse_rows(np.diff(np.eye(D), 2, axis=0)),
    fused_lasso(Logistic(), EDGES, D, weight=1.0).forward,
]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda o: type(o).__name__)
def test_an_operator_is_its_matrix(operator):
    matrix = operator.sparse().toarray()
    draw = np.random.default_rng(0)
    x, z = draw.standard_normal(operator.columns), draw.standard_normal(operator.rows)
    np.testing.assert_allclose(operator.apply(jnp.asarray(x)), matrix @ x, atol=1e-12)
    np.testing.assert_allclose(operator.adjoint(jnp.asarray(z)), matrix.T @ z, atol=1e-12)
    largest = np.linalg.norm(matrix, 2) ** 2
    assert largest <= operator.norm_squared() * (1 + 1e-12) <= largest * (1 + 1e-6)
    assert operator.full_row_rank() == (np.linalg.matrix_rank(matrix) == operator.rows)


@pytest.mark.parametrize("operator", OPERATORS[2:], ids=lambda o: type(o).__name__)
def test_the_restarts_dual_is_the_pseudo_inverse(operator):
    gradient = np.random.default_rng(0).standard_normal(D)
    problem = generalised_lasso(Logistic(), operator, weight=1.0)
    truth = -np.linalg.pinv(operator.sparse().toarray().T) @ gradient
    np.testing.assert_allclose(least_norm(problem, jnp.asarray(gradient)), truth, atol=1e-9)


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
    with pytest.raises(InputError, match="smoothing is -1"):
        SADMM(STRUCTURES["lasso"], smoothing=-1.0)
    with pytest.raises(InputError, match="ridge is -1"):
        lasso(Logistic(), 4, weight=1.0, ridge=-1.0)
    with pytest.raises(InputError, match="from 0 to 2"):
        differences(np.array([[0, 3]]), 3)
    with pytest.raises(InputError, match="itself"):
        differences(np.array([[1, 1]]), 3)
    with pytest.raises(InputError, match="whole number of epochs"):
        exact(*reduced(STRUCTURES["lasso"], rate=1.0, inner=9), 15)
    with pytest.raises(InputError, match="A takes 5 numbers"):
        exact(SADMM(lasso(Logistic(), 5, weight=1.0)), FULL, 2)
    other = Structured(Logistic(), L1(1.0), Identity(6), Identity(6), jnp.zeros(6))
    with pytest.raises(InputError, match="B = -I"):
        _ = other.composed
    assert isinstance(STRUCTURES["lasso"].composed.regulariser, ComposedL1)
