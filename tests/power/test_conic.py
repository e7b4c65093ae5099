"""Conic sets, polyhedra, sets of agents; their projection in a diagonal metric."""

import json

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import brentq

from taciturn.engine.planning import describe
from taciturn.errors import InputError, SolverError
from taciturn.problems import (
    L1,
    Ball,
    Box,
    Logistic,
    NoRegulariser,
    Problem,
    Simplex,
)
from taciturn_power.conic import (
    AgentSets,
    ConicSet,
    polyhedron,
)
from taciturn_power.conic.solver import FEASIBLE, ConicSolver, Optimality, product_cone

SIZE = 6
METRIC = np.array([0.3, 1.0, 20.0, 1.0, 0.05, 4.0])


def zone(seed=0):
    """A box, a balance and two rotated cones y^2 + z^2 <= 2 p q, with 0 and more inside."""
    random = np.random.default_rng(seed)
    balance = random.normal(size=(1, SIZE))
    box = np.vstack([np.eye(SIZE), -np.eye(SIZE)])
    first, second = np.zeros((2, 4, SIZE))
    first[:, [0, 1, 2, 3]] = rotated()
    second[:, [1, 4, 5, 3]] = rotated()
    A = -np.vstack([balance, -box, first, second])
    b = np.concatenate([[0.0], np.full(2 * SIZE, 1.5), np.zeros(8)])
    cones = [("zero", 1), ("nonnegative", 2 * SIZE), ("second_order", 4), ("second_order", 4)]
    return ConicSet(sp.csc_array(A), b, cones=cones), balance


def rotated():
    root = np.sqrt(2.0)
    return np.array([[1, 1, 0, 0], [1, -1, 0, 0], [0, 0, root, 0], [0, 0, 0, root]])


def rules_of_the_zone(x, balance):
    """The same set in other words: the rotated cone as quad_over_lin."""
    pairs = [(0, 1, 2, 3), (1, 4, 5, 3)]
    cones = [cp.quad_over_lin(x[[y, z]], 2 * x[p]) <= x[q] for p, q, y, z in pairs]
    return [*cones, x[[0, 1, 4]] >= 0, balance @ x == 0, cp.abs(x) <= 1.5]


def in_metric(plain, x, metric):
    """Return the projection on a box, ball or simplex in a diagonal metric, by its multiplier."""
    x, metric = np.asarray(x), np.asarray(metric)
    if isinstance(plain, Box):
        return np.clip(x, plain.lower, plain.upper)
    if isinstance(plain, Ball):
        if np.linalg.norm(x) <= plain.radius:
            return x
        most = np.max(metric) * np.linalg.norm(x) / plain.radius
        m = brentq(lambda m: np.linalg.norm(x / (1 + m / metric)) - plain.radius, 0.0, most)
        return x / (1 + m / metric)
    ends = np.max(metric * (x - plain.total)), np.max(metric * x)
    theta = brentq(lambda t: np.maximum(x - t / metric, 0).sum() - plain.total, *ends)
    return np.maximum(x - theta / metric, 0)


def steepest():
    """Return (p, x, metric) -> max over y in the zone of <way, y - p>, way along metric (x - p).

    p is the projection if and only if this is not above 0. The maximum is found by another
    modelling layer, over y of norm 20 and less.
    """
    y, way = cp.Variable(SIZE), cp.Parameter(SIZE)
    bounded = [*rules_of_the_zone(y, zone()[1]), cp.norm(y) <= 20]
    problem = cp.Problem(cp.Maximize(way @ y), bounded)

    def gain(p, x, metric):
        steep = metric * (x - p)
        if not steep.any():  # x is in the set and stays: the maximum of 0 needs no solver
            return 0.0
        way.value = steep / np.linalg.norm(steep)
        problem.solve(solver=cp.CLARABEL)
        return float(problem.value - way.value @ p)

    return gain


def test_the_projection_in_a_metric_meets_its_variational_inequality():
    random, gain, (constraint, _) = np.random.default_rng(2), steepest(), zone()
    for scale in (0.3, 3.0, 50.0):
        for _ in range(2):
            x = random.normal(size=SIZE) * scale
            p = constraint.project_in(jnp.asarray(x), jnp.asarray(METRIC))
            assert bool(constraint.contains(p, 1e-9 * max(1.0, scale)))
            # twice what Clarabel promises of a maximum of size 1
            assert gain(np.asarray(p), x, METRIC) <= 2e-8


def test_a_wrong_metric_is_caught_by_the_same_inequality():
    x, gain = np.array([1.0, -0.8, 2.1, -0.2, -2.0, 0.7]), steepest()
    p = np.asarray(zone()[0].project(jnp.asarray(x)))
    assert gain(p, x, np.ones(SIZE)) <= 2e-8
    assert gain(p, x, METRIC) > 1e-2


def test_known_sets_written_as_cones_are_projected_on_to_1e_9():
    random = np.random.default_rng(5)
    eye = np.eye(SIZE)
    ball = ConicSet(
        -np.vstack([np.zeros(SIZE), eye]), np.r_[1.2, np.zeros(SIZE)], cones=[("second_order", 7)]
    )
    box = polyhedron(A=np.vstack([eye, -eye]), b=np.r_[np.full(SIZE, 0.8), np.full(SIZE, 0.5)])
    simplex = polyhedron(A=-eye, b=np.zeros(SIZE), E=np.ones((1, SIZE)), f=[1.5])
    for conic, plain in [(ball, Ball(1.2)), (box, Box(-0.5, 0.8)), (simplex, Simplex(1.5))]:
        for metric in (np.ones(SIZE), METRIC):
            for scale in (0.1, 1.0, 1e3, 1e6):
                v = jnp.asarray(random.normal(size=SIZE) * scale)
                p, q = conic.project_in(v, jnp.asarray(metric)), in_metric(plain, v, metric)
                np.testing.assert_allclose(p, q, atol=1e-9 * max(1.0, scale))
                if np.all(metric == 1):
                    np.testing.assert_allclose(p, plain.project(v), atol=1e-9 * max(1.0, scale))


def test_equal_weights_are_the_plain_projection():
    draw = np.random.default_rng(6).normal(size=SIZE)  # a shape that other tests compiled for
    constraint, _ = zone()
    for scale in (0.1, 3.0):
        v = jnp.asarray(draw * scale)
        weighed = constraint.project_in(v, jnp.full(SIZE, 7.0))
        np.testing.assert_allclose(weighed, constraint.project(v), atol=1e-9 * max(1.0, scale))


def test_a_projection_keeps_its_precision():
    v = jnp.ones((2, 3), jnp.float32)
    assert zone()[0].project_in(v, 7.0).dtype == np.float32


def test_the_cone_projection_splits_as_moreau_says_and_its_derivative_is_the_slope():
    cone = product_cone([("zero", 2), ("second_order", 3), ("nonnegative", 2), ("second_order", 1)])
    random = np.random.default_rng(8)
    for _ in range(20):
        w, way = random.normal(size=(2, cone.rows))
        s = cone.project(w)
        rest = s - w
        assert np.linalg.norm(s[3:5]) <= s[2] + 1e-12
        assert np.linalg.norm(rest[3:5]) <= rest[2] + 1e-12
        assert min(s[5:].min(), rest[5:].min()) >= 0
        assert abs(s @ rest) <= 1e-12
        slope = (cone.project(w + 1e-7 * way) - cone.project(w - 1e-7 * way)) / 2e-7
        np.testing.assert_allclose(cone.derivative(w) @ way, slope, atol=1e-6)


def test_a_set_works_under_jit_vmap_and_scan_and_repeats_its_bits():
    constraint, _ = zone()
    points = jnp.asarray(np.random.default_rng(1).normal(size=(3, SIZE)))
    metric = jnp.asarray(METRIC)
    single = jnp.stack([constraint.project_in(x, metric) for x in points])
    batch = jax.jit(lambda one, many: jax.vmap(one.project_in, (0, None))(many, metric))
    np.testing.assert_array_equal(batch(constraint, points), single)
    walk = jax.jit(lambda one, xs: jax.lax.scan(lambda c, x: (one.project(c + x), c), xs[0], xs)[0])
    plain = points[0]
    for x in points:
        plain = constraint.project(plain + x)
    np.testing.assert_array_equal(walk(constraint, points), plain)
    assert bool(jnp.all(jax.vmap(constraint.contains, (0, None))(single, 1e-9)))


def test_sets_of_equal_data_share_a_compiled_program_and_others_do_not():
    traces, x = [], jnp.ones(SIZE)
    compiled = jax.jit(lambda one, x: traces.append(0) or one.project(x))
    first = compiled(zone()[0], x)
    np.testing.assert_array_equal(compiled(zone()[0], x), first)
    assert len(traces) == 1
    assert not np.array_equal(compiled(zone(1)[0], x), first)
    assert len(traces) == 2


def two_agents():
    big, _ = zone()
    small = ConicSet(-np.eye(3), np.zeros(3), cones=[("second_order", 3)])
    return AgentSets([small, big])


def test_agents_of_different_sizes_project_onto_their_own_sets():
    sets = two_agents()
    random = np.random.default_rng(2)
    points, metric = random.normal(size=(2, SIZE)), np.abs(random.normal(size=(2, SIZE))) + 0.1
    points[0, 3:] = np.nan  # nobody looks at the padding
    many = jax.jit(lambda sets, x, m: jax.vmap(sets.project)(jnp.arange(2), x, m))
    result = np.asarray(many(sets, jnp.asarray(points), jnp.asarray(metric)))
    for agent, size in enumerate((3, SIZE)):
        x, m = jnp.asarray(points[agent, :size]), jnp.asarray(metric[agent, :size])
        np.testing.assert_array_equal(result[agent, :size], sets.sets[agent].project_in(x, m))
    assert not result[0, 3:].any()
    twice = jax.vmap(many, (None, 0, None))(
        sets, jnp.asarray([points, points]), jnp.asarray(metric)
    )
    np.testing.assert_array_equal(twice, [result, result])


def quadratic(seed=0):
    """A Hessian of rank 2, a linear term and a metric."""
    draw = np.random.default_rng(seed)
    root = draw.normal(size=(2, SIZE))
    return root, 3 * draw.normal(size=SIZE), draw.uniform(0.01, 5, SIZE)


def stepped(constraint, root, linear, metric):
    sets = AgentSets([constraint], [root.T @ root])
    return np.asarray(sets.step(0, jnp.asarray(linear), jnp.asarray(metric)))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_step_with_a_hessian_is_the_minimiser_that_cvxpy_finds(seed):
    (constraint, balance), (root, linear, metric) = zone(), quadratic(seed)
    ours, x = stepped(constraint, root, linear, metric), cp.Variable(SIZE)
    loss = cp.sum_squares(root @ x) / 2 + metric @ cp.square(x) / 2 - linear @ x
    cp.Problem(cp.Minimize(loss), rules_of_the_zone(x, balance)).solve(solver=cp.CLARABEL)
    theirs, x.value = loss.value, ours
    assert loss.value <= theirs + 1e-7 * max(1.0, abs(theirs))
    assert bool(constraint.contains(jnp.asarray(ours), FEASIBLE * 1.5))
    # a step does not depend on the steps before it
    sets = AgentSets([constraint], [root.T @ root])
    sets.step(0, jnp.asarray(-9 * linear), jnp.asarray(100 * metric))
    again = sets.step(0, jnp.asarray(linear), jnp.asarray(metric))
    np.testing.assert_array_equal(again, ours)


def test_an_interior_point_that_is_not_feasible_is_refined_or_refused(monkeypatch):
    """Planted: a solver that stops early, at a point 1e-4 off."""
    (constraint, _), (root, linear, metric) = zone(), quadratic()
    exact = stepped(constraint, root, linear, metric)
    honest = ConicSolver._interior_point

    def early(self, *given):
        (x, z), solved = honest(self, *given)
        return (x + 1e-4, z), solved

    monkeypatch.setattr(ConicSolver, "_interior_point", early)
    refined = stepped(constraint, root, linear, metric)
    assert bool(constraint.contains(jnp.asarray(refined), FEASIBLE * 1.5))
    np.testing.assert_allclose(refined, exact, atol=1e-5)
    monkeypatch.setattr(Optimality, "refine", lambda self, pair: (pair, self.residual(pair)))
    with pytest.raises(SolverError, match="relative accuracy"):
        stepped(constraint, root, linear, metric)


def test_a_minimum_in_one_place_is_least_squares_where_nothing_binds():
    draw = np.random.default_rng(4)
    root, right = draw.normal(size=(8, SIZE)), draw.normal(size=8)
    wide = polyhedron(A=np.vstack([np.eye(SIZE), -np.eye(SIZE)]), b=np.full(2 * SIZE, 50.0))
    ours = wide.minimum(root.T @ root, root.T @ right)
    np.testing.assert_allclose(ours, np.linalg.lstsq(root, right)[0], atol=1e-6)


def test_a_set_is_described_as_plain_values():
    text = json.dumps(describe(two_agents()))
    values = json.loads(text)
    assert [one["dimension"] for one in values["sets"]] == [3, SIZE]
    assert len({one["digest"] for one in values["sets"]}) == 2
    described = describe(Problem(Logistic(), NoRegulariser(), zone()[0]))
    assert json.loads(json.dumps(described))["constraint"]["class"] == "ConicSet"


def inexact_optimum(constraint, v, metric, shift):
    """Return the equations of a projection and a pair that solves them up to about `shift`."""
    system = Optimality(constraint.solver.constraint, None, metric, metric * v)
    point, _ = constraint.solver._interior_point(system.linear, metric)
    (x, z), _ = system.refine(point)
    random = np.random.default_rng(3)
    return system, (x + shift * random.normal(size=x.size), z + shift * random.normal(size=z.size))


@pytest.mark.parametrize("shift", [1e-2, 1e-4])
def test_the_residual_is_the_data_s_distance_to_an_exact_projection(shift):
    constraint, _ = zone()
    v, metric = np.random.default_rng(5).normal(size=SIZE), METRIC / METRIC.max()
    system, (x, z) = inexact_optimum(constraint, v, metric, shift)
    one = constraint.solver.constraint
    slack = one.b - one.A @ x
    error = slack - one.cone.project(slack - z)
    moved_v = x + one.A.T @ (z - error) / metric
    moved = ConicSet(one.A, one.b - error, cones=constraint.cones)
    exact = moved.project_in(jnp.asarray(moved_v), jnp.asarray(metric))
    np.testing.assert_allclose(exact, x, atol=1e-8)
    distance = max(np.abs(moved_v - v).max(), np.abs(error).max())
    assert system.residual((x, z)) * system.unit == pytest.approx(distance, rel=1e-9)
    assert distance > shift / 10


def test_an_error_inside_a_compiled_program_stops_it():
    project = jax.jit(lambda one, x: one.project(x))
    with pytest.raises(Exception, match="not finite"):
        project(zone()[0], jnp.full(SIZE, jnp.nan)).block_until_ready()
    with pytest.raises(Exception, match="there is no agent 2"):
        jax.jit(two_agents().project)(2, jnp.ones(SIZE), jnp.ones(SIZE)).block_until_ready()


EYE = np.eye(2)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: polyhedron(A=EYE, b=[1.0]), "equal numbers of rows"),
        (lambda: ConicSet(EYE, np.ones(3), cones=[("zero", 2)]), "equal numbers of rows"),
        (lambda: ConicSet(EYE, np.ones(2), cones=[("zero", 1)]), "cones have 1 rows and A has 2"),
        (lambda: ConicSet(EYE, np.ones(2), cones=[("exponential", 2)]), "is not a cone"),
        (lambda: ConicSet(EYE, np.ones(2), cones=[("zero", 0), ("zero", 2)]), "at least 1"),
        (lambda: polyhedron(A=[[1.0], [-1.0]], b=[0.0, -1.0]), "the set is empty"),
        (lambda: polyhedron(A=EYE, b=[np.nan, 1.0]), "not finite"),
        (lambda: polyhedron(A=np.full((2, 2), np.inf), b=[1.0, 1.0]), "not finite"),
        (lambda: polyhedron(A=EYE, b=[1.0, 1.0], E=[[1.0]], f=[0.0]), "columns"),
        (polyhedron, "without constraints"),
        (lambda: polyhedron(A=EYE, b=[1.0, 1.0]).project(jnp.ones(3)), "3 coordinates"),
        (lambda: polyhedron(A=EYE, b=[1.0, 1.0]).project(jnp.array([1.0, jnp.nan])), "NaN"),
        (lambda: polyhedron(A=EYE, b=[1.0, 1.0]).project_in(jnp.ones(2), -1.0), "metric"),
        (lambda: L1(1.0).prox_within(polyhedron(A=EYE, b=[1.0, 1.0]), jnp.ones(2), 1.0), "l1"),
        (lambda: AgentSets([]), "no sets"),
        (lambda: AgentSets([zone()[0]], [np.eye(2)]), "not those of the sets"),
        (lambda: AgentSets([zone()[0]], []), "not those of the sets"),
        (
            lambda: AgentSets([zone()[0]], [np.eye(SIZE)]).project(0, jnp.ones(SIZE), 1.0),
            "use step",
        ),
        (lambda: two_agents().project(0, jnp.ones(3), jnp.ones(3)), "pad it"),
        (lambda: two_agents().project(5, jnp.ones(SIZE), jnp.ones(SIZE)), "no agent 5"),
    ],
)
@pytest.mark.unchecked
def test_what_cannot_be_used_is_refused_by_name(build, words):
    with pytest.raises(InputError, match=words):
        build()
