"""Any question on rows around a centre: its records, their norm, its bound, and the methods."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import make_terms
from taciturn.algorithms import METHODS, NoisyGradient
from taciturn.audit import replace_record
from taciturn.engine import behind_the_door, run
from taciturn.engine.planning import plan
from taciturn.errors import InputError
from taciturn.features import AroundCentre, Inputs
from taciturn.kernel.privacy import Adjacency, ReplaceOne, ZeroOut
from taciturn.kernel.questions import (
    Around,
    Centre,
    CentredGradient,
    Gradient,
    MinibatchGradient,
    PerturbedStep,
    Point,
    ProximalStep,
    Recentred,
)
from taciturn.kernel.records import pack, random_partition
from taciturn.problems import Logistic, NoRegulariser, Problem, WholeSpace, public_facts
from taciturn.training import DataFacts, Request, propose

KAPPA, NORM, CLIP, RHO, COLUMNS = 0.3, 2.0, 0.8, 0.7, 6
PROBLEM = Problem(Logistic(), NoRegulariser(), WholeSpace())
ROW_NORM = math.hypot(1.0, KAPPA)
QUESTIONS = {
    "gradient": (Gradient(Logistic(), CLIP), Point),
    "batch of half": (MinibatchGradient(Logistic(), CLIP, 0.5), Point),
    "proximal step": (ProximalStep(PROBLEM, CLIP, RHO, ROW_NORM), Centre),
}


def shards_of(rows=12, agents=1, precision="float64"):
    draw = np.random.default_rng(0)
    x = 1 + 0.5 * draw.standard_normal((rows, COLUMNS))
    x[:, -1] = 0
    y = np.sign(x[:, 0] - x[:, 1])
    parts = random_partition(rows, agents, seed=0)
    return pack(x, y, parts, record_norm=NORM, precision=precision, enforce="clip")


def question(name):
    return Recentred(QUESTIONS[name][0], NORM, KAPPA)


def opened(shards):
    """The records of one agent, on the grid of exact sums."""
    planned = plan(
        public_facts(PROBLEM, shards, clip=CLIP),
        NoisyGradient(PROBLEM),
        (Gradient(PROBLEM.loss, CLIP),),
        make_terms(),
        rounds=2,
        precision="float64" if shards.stacked.features.dtype == np.float64 else "float32",
    )
    return jax.tree.map(lambda leaf: leaf[0], behind_the_door(planned, shards).shard)


ROWS = np.array([
    [1, 0, 0, 0, 0, 0], [-1, 0, 0, 0, 0, 0], [0.6, 0.8, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0],
    [0.5, 0.5, 0.5, 0.5, 0, 0], [0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1], [1e-9, 0, 0, 0, 0, 0],
]) * NORM  # fmt: skip
CENTRES = [
    np.zeros(6), ROWS[0], ROWS[2] * (1 - 1e-7), ROWS[4] / 2, np.full(6, 1e300), np.full(6, np.nan),
    np.full(6, 1e-9), np.array([math.inf, 0, 0, 0, 0, 3.0]),
]  # fmt: skip


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_no_row_is_longer_than_its_bound_around_any_centre(precision):
    shards = replace_rows(shards_of(precision=precision))
    shard, oracle = opened(shards), question("gradient")
    for centre in CENTRES:
        query = Around(None, jnp.asarray(centre))
        seen = rows_around(oracle, shard, query)
        assert np.all(np.linalg.norm(seen.astype(np.float64), axis=1) <= ROW_NORM)
        digits = min(shard.grid.digits, 23)
        steps = seen.astype(np.float64) * 2.0 ** (digits - 1)
        np.testing.assert_array_equal(steps, np.trunc(steps))


def replace_rows(shards):
    for place, row in enumerate(ROWS * (1 - 2.0**-20)):
        shards = replace_record(shards, 0, place, row, -1.0)
    return shards


def rows_around(oracle, shard, query):
    """The rows that the inner question is given."""

    class Rows(Gradient):
        def exact(self, shard, count, query):
            return shard.features

    spied = dataclasses.replace(oracle, inner=Rows(Logistic(), CLIP))
    return np.asarray(jax.jit(spied.exact)(shard, jnp.asarray(12.0), query))


def test_the_rows_are_those_that_the_model_is_applied_to_afterwards():
    shards, centre = replace_rows(shards_of()), np.array([0.5, 0.3, -0.2, 0, 0.1, 0])
    names = tuple(map(str, range(COLUMNS - 1)))
    chained = AroundCentre(Inputs(names, NORM), None, centre[:-1])
    shard = opened(shards)
    seen = rows_around(question("gradient"), shard, Around(None, jnp.asarray(centre)))
    # the sixth row of `ROWS` has its norm in the place of the constant
    wanted = chained.around(np.asarray(shards.stacked.features)[0, :, :-1])
    keep = np.arange(len(wanted)) != 6
    np.testing.assert_allclose(seen[keep], wanted[keep], atol=2e-4)


def test_of_the_gradient_it_is_the_answer_that_forms_no_rows():
    shard = opened(shards_of(rows=40))
    draw = np.random.default_rng(1)
    query = Around(Point(draw.standard_normal(6)), np.append(draw.uniform(0, 0.5, 5), 0))
    query = jax.tree.map(jnp.asarray, query)
    fast = CentredGradient(Gradient(Logistic(), CLIP), NORM, KAPPA).exact(
        shard, jnp.asarray(40.0), query
    )
    formed = question("gradient").exact(shard, jnp.asarray(40.0), query)
    np.testing.assert_allclose(formed, fast, atol=1e-4)


def most_moved(name, relation):
    """By how much replacing, or dropping, a record moves answers at most, over the bound."""
    oracle, kind = question(name), QUESTIONS[name][1]
    shards = shards_of()
    spec = public_facts(PROBLEM, shards, clip=CLIP)
    bound = oracle.bound(spec, Adjacency(relation, "record"), norm="l2").value[0, 0, 0]
    sets = [opened(replace_record(shards, 0, 0, row, target)) for row in ROWS for target in (-1, 1)]
    gone = [dataclasses.replace(s, mask=s.mask.at[0].set(0)) for s in sets[:1]]
    draw, queries = np.random.default_rng(2), []
    for centre in CENTRES:
        for size in (0.0, 1.0, 1e6, math.inf):
            point = draw.standard_normal(6) * size if size < math.inf else ROWS[4] * 1e4
            queries.append(Around(kind(point), centre))
    stacked = jax.tree.map(lambda *parts: jnp.asarray(np.stack(parts)), *queries)
    ask = jax.jit(jax.vmap(oracle.exact, in_axes=(None, None, 0)))
    count = jnp.asarray(12.0)
    answers = np.array([ask(shard, count, stacked) for shard in sets])
    others = answers if isinstance(relation, ReplaceOne) else [ask(s, count, stacked) for s in gone]
    moved = answers[:, None] - np.array(others)[None]
    return float(np.linalg.norm(moved.reshape(-1, 6), axis=1).max()) / bound


@pytest.mark.parametrize("relation", [ReplaceOne(), ZeroOut()])
@pytest.mark.parametrize("name", QUESTIONS)
def test_no_record_moves_a_question_beyond_its_bound_around_any_centre(name, relation):
    assert 0.5 < most_moved(name, relation) <= 1


def test_rows_that_are_not_made_short_exceed_the_bound(monkeypatch):
    """Planted: the difference to the centre is handed on as it is."""
    honest = Recentred._rows

    def long(self, shard, centre):
        return honest(self, shard, centre) * self.record_norm

    monkeypatch.setattr(Recentred, "_rows", long)
    assert most_moved("gradient", ZeroOut()) > 1


def test_a_row_has_the_same_bits_in_every_slot():
    shard, oracle = opened(shards_of(rows=37)), question("gradient")
    query = Around(None, jnp.asarray(CENTRES[3]))
    rows = rows_around(oracle, shard, query)
    order = np.random.default_rng(3).permutation(37)
    moved = dataclasses.replace(shard, features=shard.features[order])
    np.testing.assert_array_equal(rows_around(oracle, moved, query), rows[order])


@pytest.mark.slow
@pytest.mark.parametrize("observer", ["messages", "sum"])
@pytest.mark.parametrize("method", ["dp-admm", "pvp", "dp-sgd", "linearised-admm"])
def test_methods_run_around_a_centre_with_the_credit_that_they_have(method, observer):
    proposal = propose(
        DataFacts(name="m", task="binary", classes=2, columns=5, record_norm=NORM, table=None),
        (20, 20),
        Request(
            epsilon=1.0, delta=1e-3, algorithm=method, centre=True, rounds=6, observer=observer,
            precision="float64",
        ),
        dealt=True,
    )  # fmt: skip
    made = proposal.plan()
    plain = dataclasses.replace(Request(epsilon=1.0, delta=1e-3, algorithm=method, rounds=6))
    without = propose(proposal.data, (20, 20), dataclasses.replace(plain, observer=observer)).plan()
    assert made.program.summed == without.program.summed
    assert made.certificate.epsilon <= 1
    shards = shards_of(rows=40, agents=2)
    one, other = (run(made, shards, runtime=r, seed=3) for r in ("simulate", "serial"))
    np.testing.assert_allclose(one.model, other.model, rtol=1e-9, atol=1e-12)


def test_noise_inside_an_objective_is_refused_with_the_reason():
    step = ProximalStep(PROBLEM, CLIP, RHO, ROW_NORM)
    with pytest.raises(InputError, match="inside what is minimised"):
        Recentred(PerturbedStep(step), NORM, KAPPA)


STARS = [n for n, m in METHODS.items() if m.network is None and m.structure != "required"]


@pytest.mark.parametrize("name", STARS)
def test_every_star_method_has_a_centre_or_says_why_not(name):
    task, classes = ("regression", None) if name == "one-question" else ("binary", 2)
    facts = DataFacts(name="m", task=task, classes=classes, columns=5, record_norm=1.0, table=None)
    request = Request(epsilon=1.0, delta=1e-5, algorithm=name, centre=True, rounds=5)
    if name in {"dvp", "one-question"}:
        with pytest.raises(InputError, match="leave the centre out"):
            propose(facts, (900,) * 3, request)
    else:
        assert propose(facts, (900,) * 3, request).plan().certificate.epsilon <= 1
