"""Steps that a user states: what would overflow after the charge is refused before it."""

import functools

import numpy as np
import pytest

from conftest import make_shards
from taciturn.algorithms import DPADMM
from taciturn.algorithms.algorithm import MOST_GROWTH, check_growth
from taciturn.audit.subject import DATA
from taciturn.engine import plan, run
from taciturn.errors import InputError
from taciturn.kernel.privacy import Adjacency, Messages, ReplaceOne, Terms
from taciturn.kernel.questions import Gradient
from taciturn.problems import L2, Logistic, Problem, public_facts
from taciturn.training import StructureRequest, propose
from taciturn.training.request import Request

FACTS = public_facts(Problem(Logistic(), L2(0.1)), make_shards(agents=1), clip=1.0)
DRAW = np.random.default_rng(4)


def refused(steps, **curvature):
    try:
        check_growth(FACTS, steps, **curvature)
    except InputError:
        return True
    return False


@functools.cache
def largest_of_pairs(a, b):
    """The largest modulus of an eigenvalue over curvatures up to these and a public step of y."""
    shares = np.linspace(0, 1, 12)
    found = [1.0]
    for s in shares:
        for t in shares:
            for left in shares:  # y takes 1 - left of what would change the dual
                one, two = a * s * left, b * t
                matrix = [[1 - two - one, -one], [left - two - one, left - one]]
                found.append(float(np.max(np.abs(np.linalg.eigvals(np.array(matrix))))))
    return max(found)


@pytest.mark.parametrize(("a", "b"), [tuple(DRAW.uniform(0, 2.5, 2)) for _ in range(25)])
def test_growth_is_that_of_the_distance_and_the_dual_together(a, b):
    rounds, factor = 400, largest_of_pairs(a, b)
    steps = np.ones(rounds)
    if factor**rounds > 2 * MOST_GROWTH:
        assert refused(steps, coupled=a, ridge=b)
    elif factor == 1.0:
        assert not refused(steps, coupled=a, ridge=b)


def at_the_agents(weight, rounds=400):
    problem = Problem(Logistic(), L2(weight))
    shards = make_shards(agents=3, records=30, precision="float32")
    method = DPADMM(
        problem, 1.0, radius=None, step_rule="constant", step_size=1e6, regulariser_at="agents"
    )
    made = plan(
        public_facts(problem, shards, clip=1.0), method, (Gradient(Logistic(), 1.0),),
        Terms(1.0, 1e-5, Adjacency(ReplaceOne(), "record"), Messages()),
        rounds=rounds, precision="float32",
    )  # fmt: skip
    return np.asarray(run(made, shards, runtime="simulate", seed=0).model)


def test_a_ridge_that_a_dual_makes_diverge_is_refused_and_a_smaller_one_runs():
    with pytest.raises(InputError, match="overflow"):  # each alone is below two over the step
        at_the_agents(0.9)
    assert np.all(np.isfinite(at_the_agents(0.45)))


@pytest.mark.parametrize(
    ("ridge", "options"),
    [(1e4, {"form": "general"}), (1.0, {"smoothing": 1e4}), (1e4, {"form": "general", "rho": 1.0})],
)
def test_printed_steps_that_overflow_are_refused_whatever_was_stated(ridge, options):
    lasso = StructureRequest(structure="lasso").of_columns(tuple("abc"))
    request = Request(
        algorithm="sadmm", epsilon=2.0, delta=1e-5, features="columns", centre=False, rounds=400,
        options={"steps": "published", "sampling_rate": 1.0} | options,
    )  # fmt: skip
    facts = DATA.model_copy(update={"columns": 3})
    with pytest.raises(InputError, match="overflow"):
        propose(facts, [60], request, lasso.model_copy(update={"ridge": ridge})).plan()
