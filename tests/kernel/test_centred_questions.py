"""Questions on rows around a private centre: their answers and bounds in floats, and the runs."""

import dataclasses
import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import ROUNDED, make_terms, packed, plan_of
from taciturn.algorithms import (
    METHODS,
    MOST_NOISE,
    Centred,
    LinearisedADMM,
    NoisyGradient,
    centre_multiplier,
)
from taciturn.algorithms.centred import SHARE
from taciturn.audit import replace_record
from taciturn.engine import records_for_door, run
from taciturn.errors import InputError
from taciturn.features import CentredRows, Inputs
from taciturn.kernel.privacy import Adjacency, Messages, ReplaceOne, Sum
from taciturn.kernel.questions import (
    Around,
    CentredGradient,
    Gradient,
    PerturbedStep,
    Point,
    ProximalStep,
    Recentred,
    RowMean,
    clipped_centre,
)
from taciturn.kernel.records import Spec, random_partition
from taciturn.problems import Logistic, MultinomialLogistic, Named, Problem, Squared, public_facts
from taciturn.training import DataFacts, Request, centre_warning, noise_of_centre, propose

KAPPA, NORM, CLIP, RHO = 0.3, 2.0, 0.8, 0.7
ROW_NORM = math.hypot(1.0, KAPPA)
LOGISTIC = Problem(Logistic())
LOSSES = {"logistic": Logistic(), "squared": Squared(), "three classes": MultinomialLogistic(3)}
# the gradient in the form that makes no rows, and on rows that are formed
QUESTIONS = {
    name: (CentredGradient(Gradient(loss, CLIP), NORM, KAPPA), loss)
    for name, loss in LOSSES.items()
} | {"formed rows": (Recentred(Gradient(Logistic(), CLIP), NORM, KAPPA), Logistic())}


def shards_of(loss, *, rows=40, agents=2, precision="float64"):
    """Rows that point the same way, with the zero column where the constant will stand."""
    draw = np.random.default_rng(0)
    x = 1 + 0.5 * draw.standard_normal((rows, 6))
    x[:, -1] = 0
    classes = draw.integers(0, 3, rows)
    y = classes if loss.outputs else np.sign(x[:, 0] - x[:, 1])
    parts = random_partition(rows, agents, seed=0)
    return packed(x, y, parts, record_norm=NORM, precision=precision)


def centred_plan(name, shards, *, terms=None, rounds=6, method=NoisyGradient):
    oracle, loss = QUESTIONS[name]
    problem = Problem(loss)
    oracles = (oracle, RowMean(centre_multiplier(rounds), loss.outputs))
    algorithm = Centred(method(problem), 1, NORM, oracle.row_norm)
    return plan_of(algorithm, shards, oracles, terms, problem=problem, clip=CLIP, rounds=rounds)


def opened(loss, shards):
    """The records of one agent, on the grid of exact sums."""
    made = plan_of(NoisyGradient(Problem(loss)), shards, clip=CLIP, rounds=2)
    return jax.tree.map(lambda leaf: leaf[0], records_for_door(made, shards).shard)


def directly(loss, x, y, w, centre):
    """The answer by its definition, a record at a time."""
    total = np.zeros(w.shape)
    for row, target in zip(x, y, strict=True):
        distance = max(np.linalg.norm(row - centre), NORM / 64)
        around = np.append((row - centre)[:-1] / distance, KAPPA)
        coefficient = np.asarray(loss.coefficient(jnp.asarray(around @ w), jnp.asarray(target)))
        coefficient = coefficient * min(1, CLIP / max(np.linalg.norm(coefficient), 1e-300))
        total += np.multiply.outer(around, coefficient)
    return total / len(x)


@pytest.mark.parametrize("on_grid", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name",
    [
        "logistic",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("formed rows", "three classes")),
    ],
)
def test_the_answer_is_the_gradient_on_rows_around_the_centre(name, on_grid):
    oracle, loss = QUESTIONS[name]
    shard = opened(loss, shards_of(loss, agents=1))
    if not on_grid:
        shard = dataclasses.replace(shard, grid=None)
    draw = np.random.default_rng(1)
    w = draw.standard_normal((6,) if loss.outputs is None else (6, loss.outputs))
    centre = np.append(draw.uniform(0, 0.5, 5), 0)
    query = Around(Point(jnp.asarray(w)), jnp.asarray(centre))
    found = oracle.exact(shard, jnp.asarray(40.0), query)
    x, y = np.asarray(shard.features), np.asarray(shard.targets)
    np.testing.assert_allclose(found, directly(loss, x, y, w, centre), atol=1e-4)


def test_the_mean_of_the_rows_is_in_the_first_column():
    loss = LOSSES["three classes"]
    shard = opened(loss, shards_of(loss, agents=1))
    found = np.asarray(RowMean(outputs=3).exact(shard, jnp.asarray(40.0), None))
    np.testing.assert_allclose(found[:, 0], np.asarray(shard.features).mean(axis=0), rtol=1e-12)
    assert not found[:, 1:].any()


ROWS = np.array([
    [1, 0, 0, 0, 0, 0], [-1, 0, 0, 0, 0, 0], [0.6, 0.8, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0],
    [0.5, 0.5, 0.5, 0.5, 0, 0], [0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1], [1e-9, 0, 0, 0, 0, 0],
]) * NORM  # fmt: skip


def test_the_bound_is_that_of_a_gradient_on_rows_with_a_constant():
    shards = shards_of(Logistic())
    spec = public_facts(LOGISTIC, shards, clip=CLIP)
    record = Adjacency(ReplaceOne(), "record")
    found = QUESTIONS["logistic"][0].bound(spec, record, norm="l2").value
    wanted = 2 * CLIP * ROW_NORM / np.array(shards.counts) * ROUNDED
    np.testing.assert_allclose(found[:, 0, 0], wanted, rtol=1e-12)


@pytest.mark.parametrize(
    "centre",
    [[3.0, 4.0, 0.0], [1e300, 1e300, 7.0], [-1.7e308] * 3, [1e308, 0.5, 0], [math.nan, 1.0, 2.0]],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_a_centre_is_finite_within_the_record_norm_and_has_few_digits(centre, compiled):
    clipped = jax.jit(clipped_centre, static_argnums=1) if compiled else clipped_centre
    found = np.asarray(clipped(jnp.asarray(centre), 1.0))
    assert np.linalg.norm(found) <= 1
    assert found[-1] == 0
    counted = np.where(np.abs(centre) < 2.0**1000, centre, 0)
    largest = max(np.abs(counted).max(), 1)
    wanted = counted / max(np.linalg.norm(counted / largest) * largest, 1)
    np.testing.assert_allclose(found[:-1], wanted[:-1], rtol=0, atol=2**-18)
    np.testing.assert_array_equal(found * 2**18, np.trunc(found * 2**18))


def rows_around(shard, centre):
    """The rows that an inner question is given."""

    class Rows(Gradient):
        def exact(self, shard, count, query):
            return shard.features

    spied = dataclasses.replace(QUESTIONS["formed rows"][0], inner=Rows(Logistic(), CLIP))
    query = Around(None, jnp.asarray(centre))
    return np.asarray(jax.jit(spied.exact)(shard, jnp.asarray(12.0), query))


def with_rows(shards):
    for place, row in enumerate(ROWS * (1 - 2.0**-20)):
        shards = replace_record(shards, 0, place, row, -1.0)
    return shards


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_no_row_is_longer_than_its_bound_around_any_centre(precision):
    shards = with_rows(shards_of(Logistic(), rows=12, agents=1, precision=precision))
    shard = opened(Logistic(), shards)
    for centre in (
        np.zeros(6), ROWS[0], ROWS[2] * (1 - 1e-7), ROWS[4] / 2, np.full(6, 1e300),
        np.full(6, np.nan), np.full(6, 1e-9), np.array([math.inf, 0, 0, 0, 0, 3.0]),
    ):  # fmt: skip
        seen = rows_around(shard, centre).astype(np.float64)
        assert np.all(np.linalg.norm(seen, axis=1) <= ROW_NORM)
        steps = seen * 2.0 ** (min(shard.grid.digits, 23) - 1)
        np.testing.assert_array_equal(steps, np.trunc(steps))


def test_the_rows_are_those_that_the_model_is_applied_to_and_have_the_same_bits_in_every_slot():
    shards = with_rows(shards_of(Logistic(), rows=37, agents=1))
    shard, centre = opened(Logistic(), shards), np.array([0.5, 0.3, -0.2, 0, 0.1, 0])
    chained = CentredRows(Inputs(tuple(map(str, range(5))), NORM), None, centre[:-1])
    seen = rows_around(shard, centre)
    # the seventh row has its norm in the place of the constant
    wanted = chained.around(np.asarray(shards.stacked.features)[0, :, :-1])
    keep = np.arange(len(wanted)) != 6
    np.testing.assert_allclose(seen[keep], wanted[keep], atol=2e-4)
    order = np.random.default_rng(3).permutation(37)
    moved = dataclasses.replace(shard, features=shard.features[order])
    np.testing.assert_array_equal(rows_around(moved, centre), seen[order])


# runs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "observer"), [("logistic", Messages()), ("three classes", Sum(1))]
)
def test_both_runtimes_agree_and_the_ledger_is_the_planned_one(name, observer):
    shards = shards_of(LOSSES[name])
    made = centred_plan(name, shards, terms=make_terms(observer=observer))
    assert made.program.summed == isinstance(observer, Sum)
    one, other = (run(made, shards, runtime=r, seed=3) for r in ("simulate", "serial"))
    np.testing.assert_allclose(one.model, other.model, rtol=1e-9, atol=1e-12)
    assert run(made, shards, runtime="simulate").certificate.epsilon == made.certificate.epsilon


def test_the_first_round_asks_for_the_centre_and_spends_its_share():
    shards = shards_of(Logistic())
    made = centred_plan("logistic", shards, rounds=40)
    assert np.asarray(made.program.questions)[:3, 0].tolist() == [1, 0, 0]
    spent = made.ledger.ratios()[0] ** 2
    assert spent[0].sum() / spent.sum() == pytest.approx(SHARE, rel=1e-3)
    updates = centred_plan("logistic", shards, method=lambda problem: LinearisedADMM(problem, 3))
    assert np.asarray(updates.program.questions)[0].tolist() == [1, -1, -1]


def test_without_noise_the_method_finds_the_optimum_on_rows_around_the_mean():
    shards = shards_of(Squared(), agents=2)
    made = centred_plan("squared", shards, terms=make_terms(math.inf), rounds=4000)
    done = run(made, shards, runtime="simulate", keep=frozenset({"publics"}))
    centre = np.asarray(done.trace.publics.centre)[-1]
    x = np.asarray(shards.stacked.features).reshape(-1, 6)
    y = np.asarray(shards.stacked.targets).reshape(-1)
    np.testing.assert_allclose(centre[:-1], x.mean(axis=0)[:-1], atol=1e-5)
    away = x - centre
    around = away / np.maximum(np.linalg.norm(away, axis=1, keepdims=True), NORM / 64)
    around[:, -1] = KAPPA
    best = np.linalg.lstsq(around, y, rcond=None)[0]
    # coefficients of the squared loss are clipped: the optimum is that of the clipped one
    assert np.mean((around @ done.model - y) ** 2) <= np.mean((around @ best - y) ** 2) + 0.05


# when a centre is learned


def facts_of(task, columns=10):
    classes = 2 if task == "binary" else None
    return DataFacts(
        name="mine", task=task, classes=classes, columns=columns, record_norm=1.0, table=None
    )


@pytest.mark.parametrize(("records", "pays"), [(50, False), (40_000, True)])
def test_a_centre_is_learned_where_its_noise_is_a_small_part_of_a_row(records, pays):
    request = Request(epsilon=1.0, delta=1e-6, centre=None)
    assert propose(facts_of("binary"), [records] * 4, request).centre is pays
    assert not propose(facts_of("regression"), [40_000] * 4, request).centre
    asked = propose(facts_of("binary"), [records] * 4, replace(request, centre=True))
    assert (noise_of_centre(asked, asked.plan()) <= MOST_NOISE) is pays
    assert bool(centre_warning(asked, asked.plan())) is not pays


@pytest.mark.parametrize(
    "changes",
    [
        {"regulariser": Named.parse("regulariser", "l1:1e-3")},
        {"constraint": Named.parse("constraint", "ball:1")},
        {"algorithm": "extra"},
        {"algorithm": "dvp"},
        {"rounds": 1},
        {"epsilon": math.inf},
        {"centre": False},
    ],
    ids=str,
)
def test_no_centre_is_learned_unasked_where_columns_matter_or_it_cannot_be(changes):
    request = replace(Request(epsilon=1.0, delta=1e-6, centre=None), **changes)
    assert not propose(facts_of("binary"), [40_000] * 4, request).centre


STARS = [n for n, m in METHODS.items() if m.network is None and m.structure != "required"]


@pytest.mark.slow
@pytest.mark.parametrize("name", STARS)
def test_every_star_method_has_a_centre_or_says_why_not(name):
    facts = facts_of("regression" if name == "one-question" else "binary", columns=5)
    rounds = 1 if name == "one-question" else 5
    request = Request(epsilon=1.0, delta=1e-5, algorithm=name, centre=True, rounds=rounds)
    if name in {"dvp", "newton", "one-question"}:
        with pytest.raises(InputError, match="leave the centre out"):
            propose(facts, (900,) * 3, request)
    else:
        assert propose(facts, (900,) * 3, request).plan().certificate.epsilon <= 1


def test_noise_inside_an_objective_and_too_many_columns_are_refused_with_the_reason():
    with pytest.raises(InputError, match="inside what is minimised"):
        Recentred(PerturbedStep(ProximalStep(LOGISTIC, CLIP, RHO, ROW_NORM)), NORM, KAPPA)
    # in 2^20 columns a centre of many small entries moved answers by 1.29 of the bound
    wide = Spec((1,), (2**16 + 1,), record_norm=1.0, gradient_bound=1.0, smoothness=1.0)
    record = Adjacency(ReplaceOne(), "record")
    oracle = CentredGradient(Gradient(Logistic(), 1.0), 1.0, KAPPA)
    with pytest.raises(InputError, match="columns"):
        oracle.bound(wide, record, norm="l2")
    oracle.bound(dataclasses.replace(wide, shape=(2**16,)), record, norm="l2")
