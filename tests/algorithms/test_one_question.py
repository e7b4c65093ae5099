"""One question about linear regression: law 1 for its statistics, and the method built on them."""

import math

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import Ridge

from conftest import make_terms
from taciturn.algorithms import Noise, OneQuestion
from taciturn.algorithms.one_question import unpacked
from taciturn.engine import run
from taciturn.engine.planning import plan
from taciturn.errors import InputError
from taciturn.kernel.privacy import (
    Adjacency,
    BoundedChange,
    Messages,
    ReplaceOne,
    Sum,
    TargetChange,
    ZeroOut,
)
from taciturn.kernel.questions import Gradient, Point, Statistics, statistics_size
from taciturn.kernel.records import pack
from taciturn.problems import L1, L2, Box, Logistic, Problem, Squared, public_facts

R = 1.5
PLAIN = Problem(Squared())


def shards_of(x, y, agents=1, precision="float64", record_norm=R):
    parts = np.split(np.arange(len(x)), agents)
    return pack(
        np.asarray(x), np.asarray(y), parts,
        record_norm=record_norm, precision=precision,
    )  # fmt: skip


def regression(agents=4, records=30, features=3, seed=0, precision="float64"):
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((agents * records, features))
    x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
    y = x @ draw.standard_normal(features) * 0.5 + 0.05 * draw.standard_normal(len(x))
    return shards_of(x, np.clip(y, -1, 1), agents, precision, record_norm=1.0)


def planned(problem, shards, terms, precision="float64", bound=1.0):
    spec = public_facts(problem, shards, clip=math.inf)
    return plan(
        spec, OneQuestion(problem), (Statistics(bound),), terms, rounds=1, precision=precision
    )


def answer(oracle, shards):
    return exact_answer(oracle, shards.shard(0), jnp.asarray(shards.counts[0], float))


@jax.jit
def exact_answer(oracle, shard, count):
    return oracle.exact(shard, count, Point(jnp.zeros(2)))


def limit(oracle, shards, relation, norm="l2", unit="record"):
    spec = public_facts(PLAIN, shards, clip=math.inf)
    made = oracle.bound(spec, Adjacency(relation, unit), norm=norm)
    return float(made.value[0, 0, 0])


@pytest.mark.parametrize("bound", [0.2, 1.0, 2.0, 3.0])
def test_the_closed_form_is_the_maximum_that_an_optimiser_finds(bound):
    """Over both records, by a route that knows nothing of the derivation."""

    def loss(v):
        rows, targets = v[:4].reshape(2, 2), v[4:]
        rows = rows * np.minimum(1, R / np.linalg.norm(rows, axis=1, keepdims=True))
        targets = np.clip(targets, -bound, bound)
        gram = np.outer(rows[0], rows[0]) - np.outer(rows[1], rows[1])
        cross = rows[0] * targets[0] - rows[1] * targets[1]
        return -math.sqrt(np.sum(gram**2) + np.sum(cross**2))

    draw = np.random.default_rng(0)
    found = max(
        -minimize(loss, draw.standard_normal(6) * 3, method="Nelder-Mead",
                  options={"maxiter": 4000, "xatol": 1e-9, "fatol": 1e-12}).fun
        for _ in range(12)
    )  # fmt: skip
    one = shards_of([[1.0, 0.0]], [0.0])
    assert limit(Statistics(bound), one, ReplaceOne()) == pytest.approx(found, rel=1e-6)


def test_the_unit_agent_costs_as_many_times_as_there_are_records():
    shards, oracle = regression(), Statistics(1.0)
    for relation in (ReplaceOne(), ZeroOut()):
        one = limit(oracle, shards, relation)
        assert limit(oracle, shards, relation, unit="agent") == pytest.approx(30 * one)
    for relation in (BoundedChange(0.1), TargetChange(0.1)):  # special cases of replacing
        assert limit(oracle, shards, relation) == limit(oracle, shards, ReplaceOne())


def test_the_statistics_unpack_to_the_matrix_and_the_vector_and_keep_their_norm():
    shards = regression(agents=1)
    x, y = (np.asarray(v)[0] for v in (shards.stacked.features, shards.stacked.targets))
    packed = answer(Statistics(1.0), shards)
    matrix, vector = unpacked(packed, 3)
    np.testing.assert_allclose(matrix, x.T @ x / 30, atol=1e-15)
    np.testing.assert_allclose(vector, x.T @ y / 30, atol=1e-15)
    norm = math.hypot(np.linalg.norm(x.T @ x / 30), np.linalg.norm(x.T @ y / 30))
    assert float(jnp.linalg.norm(packed)) == pytest.approx(norm)
    assert packed.shape == Statistics(1.0).answer_shape((3,)) == (statistics_size(3),)


def test_without_noise_one_question_is_scikit_learns_ridge():
    shards = regression()
    problem = Problem(Squared(), L2(0.1))
    done = run(planned(problem, shards, make_terms(math.inf)), shards, runtime="simulate")
    x, y = np.asarray(shards.stacked.features), np.asarray(shards.stacked.targets)
    rows = x.reshape(-1, 3)
    truth = Ridge(alpha=0.1 * len(rows), fit_intercept=False).fit(rows, y.ravel()).coef_
    np.testing.assert_allclose(done.model, truth, atol=1e-10)


def test_a_rank_deficient_problem_gets_the_solution_of_least_norm():
    shards = shards_of([[1.0, 0.0], [0.5, 0.0]], [0.4, 0.2])
    done = run(planned(PLAIN, shards, make_terms(math.inf)), shards, runtime="simulate")
    np.testing.assert_allclose(done.model, [0.4, 0.0], atol=1e-12)


def test_the_noised_solution_is_that_of_the_public_quadratic_by_another_solver():
    shards = regression()
    problem = Problem(Squared(), L1(0.01), Box(-0.5, 0.5))
    made = planned(problem, shards, make_terms(3.0))
    done = run(made, shards, runtime="simulate", keep=frozenset({"answers"}))
    mean = jnp.mean(done.trace.records.answer[0, 0], axis=0)
    matrix, vector = (np.asarray(v) for v in unpacked(mean, 3))
    values, basis = np.linalg.eigh(matrix)
    floor = made.schedules["floor"][0]
    # the noise of one coordinate of the mean of four answers, and twice the edge of its spectrum
    assert floor == pytest.approx(2 * made.ledger.scale[0, 0, 0] / 2 * math.sqrt(2 * 3))
    quadratic = (basis * np.maximum(values, floor)) @ basis.T
    w = cp.Variable(3)
    goal = cp.quad_form(w, cp.psd_wrap(quadratic)) / 2 - vector @ w + 0.01 * cp.norm1(w)
    exactly = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)
    cp.Problem(cp.Minimize(goal), [cp.abs(w) <= 0.5]).solve(solver=cp.CLARABEL, **exactly)
    np.testing.assert_allclose(done.model, w.value, atol=1e-6)


def test_a_message_that_cuts_the_answer_is_not_credited():
    """The planted fault of the credit, with an answer of another shape than the model's."""

    class Cuts(OneQuestion):
        def send(self, state, inbox, turn):
            return state, jnp.clip(state, -1, 1)

    made = planned(PLAIN, regression(), make_terms())
    spec = made.spec
    cut = plan(
        spec, Cuts(PLAIN), (Statistics(1.0),), make_terms(observer=Sum()), rounds=1,
        precision="float64",
    )  # fmt: skip
    assert "nothing is credited" in cut.certificate.trust
    np.testing.assert_array_equal(cut.ledger.scale, made.ledger.scale)


def test_what_one_question_cannot_do_is_refused():
    shards = regression()
    with pytest.raises(InputError, match="squared"):
        OneQuestion(Problem(Logistic()))
    spec = public_facts(PLAIN, shards, clip=math.inf)
    one, questions = OneQuestion(PLAIN), (Statistics(1.0),)
    with pytest.raises(InputError, match="asks once"):
        plan(spec, one, questions, make_terms(), rounds=2, precision="float64")
    with pytest.raises(InputError, match="target_bound"):
        Statistics(math.inf)
    with pytest.raises(InputError, match="vector"):
        Statistics(1.0).answer_shape((3, 2))
    mixed = (Statistics(1.0), Gradient(PLAIN.loss, 1.0))
    with pytest.raises(InputError, match="one shape"):
        plan(spec, one, mixed, make_terms(), rounds=1, precision="float64")


def test_its_schedule_is_a_function_of_public_noise_alone():
    spec = public_facts(PLAIN, regression(), clip=math.inf)
    floor = OneQuestion(PLAIN).schedule(spec, 1, Noise(1.0, np.full(4, 0.3)))["floor"]
    np.testing.assert_allclose(floor, [0.3 * math.sqrt(6)])
    assert isinstance(planned(PLAIN, regression(), make_terms()).terms.observer, Messages)
