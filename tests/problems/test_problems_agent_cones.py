"""Projections on agents' cones: against cvxpy, inside jit, and refusals."""

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csc_array

from tacit.errors import InputError, TacitError
from tacit.problems import ConeProgram, cones_of_agents, quadratic_minimum


def drawn(seed, n):
    """x_1 + ... = 1, x <= 2 and |(x_2, x_3)| <= x_1 + 1."""
    unit = np.eye(n)
    matrix = np.vstack([np.ones(n), unit, -unit[0], -unit[1], -unit[2]])
    offset = np.concatenate([[1.0], np.full(n, 2.0), [1.0, 0.0, 0.0]])
    return ConeProgram(csc_array(matrix), offset, 1, n, (3,)), np.random.default_rng(seed)


@pytest.mark.parametrize("seed", range(4))
def test_a_step_is_the_minimiser_that_cvxpy_finds(seed):
    n = 4 + seed % 2
    program, draw = drawn(seed, n)
    root = draw.standard_normal((2, n))
    linear, metric = 3 * draw.standard_normal(n), draw.uniform(0.1, 5, n)
    sets = cones_of_agents([program], [csc_array(root.T @ root)])
    ours = sets.step(jnp.array(0), jnp.asarray(linear), jnp.asarray(metric))
    x = cp.Variable(n)
    loss = cp.sum_squares(root @ x) / 2 + metric @ cp.square(x) / 2 - linear @ x
    rules = [cp.sum(x) == 1, x <= 2, cp.norm(x[1:3]) <= x[0] + 1]
    cp.Problem(cp.Minimize(loss), rules).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(ours, x.value, atol=1e-6)


def test_agents_of_different_dimensions_project_under_vmap_and_jit():
    programs = [drawn(0, 4)[0], drawn(0, 6)[0]]
    sets = cones_of_agents(programs)
    v = jnp.asarray(np.random.default_rng(1).standard_normal((2, 6)))
    metric = jnp.ones((2, 6))
    both = jax.jit(jax.vmap(sets.project))(jnp.arange(2), v, metric)
    for agent, n in enumerate((4, 6)):
        alone = quadratic_minimum(programs[agent], csc_array(np.eye(n)), -np.asarray(v[agent, :n]))
        np.testing.assert_allclose(both[agent, :n], alone, atol=1e-7)
    assert np.all(np.asarray(both[0, 4:]) == 0)


def test_an_empty_set_a_bad_shape_and_a_hessian_under_project_are_refused():
    empty = ConeProgram(csc_array([[1.0], [-1.0]]), np.array([-1.0, -1.0]), 0, 2, ())
    with pytest.raises(TacitError, match="the set may be empty"):
        quadratic_minimum(empty, csc_array([[1.0]]), np.zeros(1))
    with pytest.raises(InputError, match="give all the same"):
        ConeProgram(csc_array([[1.0]]), np.zeros(2), 1, 0, ())
    program, _ = drawn(0, 4)
    sets = cones_of_agents([program], [csc_array(np.eye(4))])
    with pytest.raises(InputError, match="use step"):
        sets.project(jnp.array(0), jnp.zeros(4), jnp.ones(4))


def test_equal_sets_have_equal_names():
    first, second = (repr(drawn(0, 4)[0]) for _ in range(2))
    assert first == second
    assert first != repr(drawn(0, 5)[0])
