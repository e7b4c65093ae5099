"""Questions on rows around a private centre: their answers and bounds in floats, and the runs."""

import dataclasses
import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import ROUNDED, make_terms, plan_of
from taciturn.algorithms import METHODS, MOST_NOISE, Centred, NoisyGradient, centre_multiplier
from taciturn.algorithms.centred import SHARE
from taciturn.audit import replace_record
from taciturn.engine import behind_the_door, run
from taciturn.errors import InputError
from taciturn.features import AroundCentre, Inputs
from taciturn.kernel.privacy import Adjacency, Messages, ReplaceOne, Sum, ZeroOut
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
    RowMean,
    usable_centre,
)
from taciturn.kernel.records import Spec, pack, random_partition
from taciturn.problems import Logistic, MultinomialLogistic, Problem, Squared, public_facts
from taciturn.proposal import DataFacts, Named, Request, centre_warning, noise_of_centre, propose

KAPPA, NORM, CLIP = 0.3, 2.0, 0.8
PROBLEMS = {
    "logistic": Problem(Logistic()),
    "squared": Problem(Squared()),
    "three classes": Problem(MultinomialLogistic(3)),
}


def shards_of(name, *, rows=40, columns=6, agents=2, precision="float64", seed=0):
    """Rows that point the same way, with the zero column where the constant will stand."""
    draw = np.random.default_rng(seed)
    x = 1 + 0.5 * draw.standard_normal((rows, columns))
    x[:, -1] = 0
    classes = draw.integers(0, 3, rows)
    y = classes if name == "three classes" else np.sign(x[:, 0] - x[:, 1])
    parts = random_partition(rows, agents, seed=0)
    return pack(x, y, parts, record_norm=NORM, precision=precision, enforce="clip")


def question(name):
    return CentredGradient(Gradient(PROBLEMS[name].loss, CLIP), NORM, KAPPA)


def centred_plan(name, shards, *, terms=None, rounds=6, method=NoisyGradient, precision="float64"):
    problem = PROBLEMS[name]
    oracle = question(name)
    return plan_of(
        Centred(method(problem), 1, NORM, oracle.row_norm), shards,
        (oracle, RowMean(centre_multiplier(rounds), outputs_of(name))), terms or make_terms(),
        clip=CLIP, rounds=rounds, precision=precision,
    )  # fmt: skip


def outputs_of(name):
    return 3 if name == "three classes" else None


def model_shape(name, columns=6):
    return (columns,) if outputs_of(name) is None else (columns, outputs_of(name))


def directly(name, x, y, w, centre):
    """The answer by its definition, a record at a time."""
    loss, total = PROBLEMS[name].loss, np.zeros(w.shape)
    for row, target in zip(x, y, strict=True):
        distance = max(np.linalg.norm(row - centre), NORM / 64)
        around = np.append((row - centre)[:-1] / distance, KAPPA)
        coefficient = np.asarray(loss.coefficient(jnp.asarray(around @ w), jnp.asarray(target)))
        coefficient = coefficient * min(1, CLIP / max(np.linalg.norm(coefficient), 1e-300))
        total += np.multiply.outer(around, coefficient)
    return total / len(x)


@pytest.mark.slow
@pytest.mark.parametrize("on_grid", [True, False])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_answer_is_the_gradient_on_rows_around_the_centre(name, on_grid):
    shards = shards_of(name, agents=1)
    opened = behind_the_door(centred_plan(name, shards), shards)
    shard = jax.tree.map(lambda leaf: leaf[0], opened.shard)
    if not on_grid:
        shard = dataclasses.replace(shard, grid=None)
    draw = np.random.default_rng(1)
    w = draw.standard_normal(model_shape(name))
    centre = np.append(draw.uniform(0, 0.5, 5), 0)
    found = question(name).exact(
        shard, opened.records[0], Around(Point(jnp.asarray(w)), jnp.asarray(centre))
    )
    x, y = np.asarray(shard.features), np.asarray(shard.targets)
    np.testing.assert_allclose(found, directly(name, x, y, w, centre), atol=1e-4)


def test_the_mean_of_the_rows_is_in_the_first_column():
    shards = shards_of("three classes", agents=1)
    opened = behind_the_door(centred_plan("three classes", shards), shards)
    shard = jax.tree.map(lambda leaf: leaf[0], opened.shard)
    found = np.asarray(RowMean(outputs=3).exact(shard, opened.records[0], None))
    np.testing.assert_allclose(found[:, 0], np.asarray(shard.features).mean(axis=0), rtol=1e-12)
    assert not found[:, 1:].any()


HOSTILE = [0.0, 1e-300, 1e-8, 0.1, 1.0, 3.0, 1e6, 1e30, 1e300, math.inf, -math.inf, math.nan]
ROWS = np.array([
    [1, 0, 0, 0, 0, 0], [-1, 0, 0, 0, 0, 0], [0.6, 0.8, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0],
    [0.5, 0.5, 0.5, 0.5, 0, 0], [0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1], [1e-9, 0, 0, 0, 0, 0],
]) * NORM  # fmt: skip


def hostile_queries(name):
    """Weights and centres of every size, and centres on a record."""
    draw = np.random.default_rng(2)
    shape = model_shape(name)
    for size in HOSTILE:
        for centre in (draw.standard_normal(6) * size, ROWS[2], ROWS[2] * (1 - 1e-7), ROWS[4]):
            for weight in (1.0, size):
                yield Around(Point(draw.standard_normal(shape) * weight), centre)


def most_moved(name, relation):
    """By how much replacing, or dropping, a record moves answers at most, over the bound."""
    shards = shards_of(name, agents=1, rows=12)
    planned = centred_plan(name, shards)
    spec = public_facts(PROBLEMS[name], shards, clip=CLIP)
    bound = question(name).bound(spec, Adjacency(relation, "record"), norm="l2").value[0, 0, 0]
    target = 2 if name == "three classes" else -1.0
    sets = [replace_record(shards, 0, 0, row, target) for row in ROWS]
    opened = [
        jax.tree.map(lambda leaf: leaf[0], behind_the_door(planned, data).shard) for data in sets
    ]
    if isinstance(relation, ZeroOut):
        without = [dataclasses.replace(s, mask=s.mask.at[0].set(0)) for s in opened]
    queries = jax.tree.map(lambda *parts: jnp.asarray(np.stack(parts)), *hostile_queries(name))
    ask = jax.jit(jax.vmap(question(name).exact, in_axes=(None, None, 0)))
    answers = np.array([ask(shard, jnp.asarray(12.0), queries) for shard in opened])
    assert np.all(np.isfinite(answers))
    if isinstance(relation, ZeroOut):
        moved = answers - np.array([ask(shard, jnp.asarray(12.0), queries) for shard in without])
    else:
        moved = answers[:, None] - answers[None]
    size = answers[0, 0].size
    return float(np.linalg.norm(moved.reshape(-1, size), axis=1).max()) / bound


@pytest.mark.parametrize("relation", [ReplaceOne(), ZeroOut()])
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "logistic" else pytest.mark.slow) for n in PROBLEMS]
)
def test_no_record_moves_an_answer_beyond_its_bound_around_any_centre(name, relation):
    assert 0.6 < most_moved(name, relation) <= 1


@pytest.mark.parametrize("fault", ["nearest", "constant"])
def test_a_forgotten_part_of_the_bound_is_exceeded(fault, monkeypatch):
    """Planted: records at the centre are not pulled, but thrown far; the constant not counted."""
    if fault == "constant":
        monkeypatch.setattr(CentredGradient, "row_norm", property(lambda self: 1.0))
        assert most_moved("logistic", ZeroOut()) > 1
        return
    honest = CentredGradient._distances

    def too_short(self, shard, centre):
        return honest(self, shard, centre) / 1.1

    monkeypatch.setattr(CentredGradient, "_distances", too_short)
    assert most_moved("logistic", ZeroOut()) > 1


def test_the_bound_is_that_of_a_gradient_on_rows_with_a_constant():
    shards = shards_of("logistic")
    spec = public_facts(PROBLEMS["logistic"], shards, clip=CLIP)
    found = question("logistic").bound(spec, Adjacency(ReplaceOne(), "record"), norm="l2").value
    wanted = 2 * CLIP * math.hypot(1, KAPPA) / np.array(shards.counts) * ROUNDED
    np.testing.assert_allclose(found[:, 0, 0], wanted, rtol=1e-12)


@pytest.mark.parametrize("centre", [[3.0, 4.0, 0.0], [1e300, 1e300, 7.0], [math.nan, 1.0, 2.0]])
def test_a_centre_is_finite_within_the_record_norm_and_has_few_digits(centre):
    found = np.asarray(usable_centre(jnp.asarray(centre), 1.0))
    assert np.linalg.norm(found) <= 1
    assert found[-1] == 0
    np.testing.assert_array_equal(found * 2**18, np.trunc(found * 2**18))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "observer"), [("logistic", Messages()), ("three classes", Sum(1))]
)
def test_both_runtimes_agree_and_the_ledger_is_the_planned_one(name, observer):
    shards = shards_of(name)
    made = centred_plan(name, shards, terms=make_terms(observer=observer))
    assert made.program.summed == isinstance(observer, Sum)
    assert np.asarray(made.program.questions)[:, 0].tolist() == [1, 0, 0, 0, 0, 0]
    one, other = (run(made, shards, runtime=r, seed=3) for r in ("simulate", "serial"))
    np.testing.assert_allclose(one.model, other.model, rtol=1e-9, atol=1e-12)
    assert run(made, shards, runtime="simulate").certificate.epsilon == made.certificate.epsilon


def test_the_first_round_spends_its_share_and_no_more():
    made = centred_plan("logistic", shards_of("logistic"), rounds=40)
    spent = made.ledger.ratios()[0] ** 2
    assert spent[0].sum() / spent.sum() == pytest.approx(SHARE, rel=1e-3)


def test_without_noise_the_method_finds_the_optimum_on_rows_around_the_mean():
    shards = shards_of("squared", agents=2)
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


@pytest.mark.parametrize(("records", "pays"), [(50, False), (40_000, True)])
def test_a_centre_is_learned_where_its_noise_is_a_small_part_of_a_row(records, pays):
    request = Request(epsilon=1.0, delta=1e-6, centre=None)
    proposal = propose(facts_of("binary"), [records] * 4, request)
    assert proposal.centre is pays
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


def test_numbers_are_never_predicted_around_a_centre_unasked():
    request = Request(epsilon=1.0, delta=1e-6, centre=None)
    assert not propose(facts_of("regression"), [40_000] * 4, request).centre


def facts_of(task):
    classes = 2 if task == "binary" else None
    return DataFacts(
        name="mine", task=task, classes=classes, columns=10, record_norm=1.0, table=None
    )


def test_more_columns_than_products_with_a_centre_are_exact_in_are_refused():
    """In 2^20 columns a centre of many small entries moved answers by 1.29 of the bound."""
    wide = Spec((1,), (2**16 + 1,), record_norm=1.0, gradient_bound=1.0, smoothness=1.0)
    record = Adjacency(ReplaceOne(), "record")
    oracle = CentredGradient(Gradient(Logistic(), 1.0), 1.0, KAPPA)
    with pytest.raises(InputError, match="columns"):
        oracle.bound(wide, record, norm="l2")
    oracle.bound(dataclasses.replace(wide, shape=(2**16,)), record, norm="l2")


PROBLEM = Problem(Logistic())
ROW_NORM = math.hypot(1.0, KAPPA)
RHO, COLUMNS = 0.7, 6
RECENTRED = {
    "gradient": (Gradient(Logistic(), CLIP), Point),
    "batch of half": (MinibatchGradient(Logistic(), CLIP, 0.5), Point),
    "proximal step": (ProximalStep(PROBLEM, CLIP, RHO, ROW_NORM), Centre),
}


def rows_of_agents(rows=12, agents=1, precision="float64"):
    draw = np.random.default_rng(0)
    x = 1 + 0.5 * draw.standard_normal((rows, COLUMNS))
    x[:, -1] = 0
    y = np.sign(x[:, 0] - x[:, 1])
    parts = random_partition(rows, agents, seed=0)
    return pack(x, y, parts, record_norm=NORM, precision=precision, enforce="clip")


def recentred(name):
    return Recentred(RECENTRED[name][0], NORM, KAPPA)


def opened(shards):
    """The records of one agent, on the grid of exact sums."""
    planned = plan_of(
        NoisyGradient(PROBLEM), shards, clip=CLIP, rounds=2,
        precision="float64" if shards.stacked.features.dtype == np.float64 else "float32",
    )  # fmt: skip
    return jax.tree.map(lambda leaf: leaf[0], behind_the_door(planned, shards).shard)


CENTRES = [
    np.zeros(6), ROWS[0], ROWS[2] * (1 - 1e-7), ROWS[4] / 2, np.full(6, 1e300), np.full(6, np.nan),
    np.full(6, 1e-9), np.array([math.inf, 0, 0, 0, 0, 3.0]),
]  # fmt: skip


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_no_row_is_longer_than_its_bound_around_any_centre(precision):
    shards = replace_rows(rows_of_agents(precision=precision))
    shard, oracle = opened(shards), recentred("gradient")
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
    """The rows that the inner recentred is given."""

    class Rows(Gradient):
        def exact(self, shard, count, query):
            return shard.features

    spied = dataclasses.replace(oracle, inner=Rows(Logistic(), CLIP))
    return np.asarray(jax.jit(spied.exact)(shard, jnp.asarray(12.0), query))


def test_the_rows_are_those_that_the_model_is_applied_to_afterwards():
    shards, centre = replace_rows(rows_of_agents()), np.array([0.5, 0.3, -0.2, 0, 0.1, 0])
    names = tuple(map(str, range(COLUMNS - 1)))
    chained = AroundCentre(Inputs(names, NORM), None, centre[:-1])
    shard = opened(shards)
    seen = rows_around(recentred("gradient"), shard, Around(None, jnp.asarray(centre)))
    # the sixth row of `ROWS` has its norm in the place of the constant
    wanted = chained.around(np.asarray(shards.stacked.features)[0, :, :-1])
    keep = np.arange(len(wanted)) != 6
    np.testing.assert_allclose(seen[keep], wanted[keep], atol=2e-4)


def test_of_the_gradient_it_is_the_answer_that_forms_no_rows():
    shard = opened(rows_of_agents(rows=40))
    draw = np.random.default_rng(1)
    query = Around(Point(draw.standard_normal(6)), np.append(draw.uniform(0, 0.5, 5), 0))
    query = jax.tree.map(jnp.asarray, query)
    fast = CentredGradient(Gradient(Logistic(), CLIP), NORM, KAPPA).exact(
        shard, jnp.asarray(40.0), query
    )
    formed = recentred("gradient").exact(shard, jnp.asarray(40.0), query)
    np.testing.assert_allclose(formed, fast, atol=1e-4)


def most_moved_around(name, relation):
    """By how much replacing, or dropping, a record moves answers at most, over the bound."""
    oracle, kind = recentred(name), RECENTRED[name][1]
    shards = rows_of_agents()
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
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n == "proximal step" else pytest.mark.slow) for n in RECENTRED],
)
def test_no_record_moves_a_question_beyond_its_bound_around_any_centre(name, relation):
    assert 0.5 < most_moved_around(name, relation) <= 1


def test_rows_that_are_not_made_short_exceed_the_bound(monkeypatch):
    """Planted: the difference to the centre is handed on as it is."""
    honest = Recentred._rows

    def long(self, shard, centre):
        return honest(self, shard, centre) * self.record_norm

    monkeypatch.setattr(Recentred, "_rows", long)
    assert most_moved_around("gradient", ZeroOut()) > 1


def test_a_row_has_the_same_bits_in_every_slot():
    shard, oracle = opened(rows_of_agents(rows=37)), recentred("gradient")
    query = Around(None, jnp.asarray(CENTRES[3]))
    rows = rows_around(oracle, shard, query)
    order = np.random.default_rng(3).permutation(37)
    moved = dataclasses.replace(shard, features=shard.features[order])
    np.testing.assert_array_equal(rows_around(oracle, moved, query), rows[order])


def test_noise_inside_an_objective_is_refused_with_the_reason():
    step = ProximalStep(PROBLEM, CLIP, RHO, ROW_NORM)
    with pytest.raises(InputError, match="inside what is minimised"):
        Recentred(PerturbedStep(step), NORM, KAPPA)


STARS = [n for n, m in METHODS.items() if m.network is None and m.structure != "required"]


@pytest.mark.slow
@pytest.mark.parametrize("name", STARS)
def test_every_star_method_has_a_centre_or_says_why_not(name):
    task, classes = ("regression", None) if name == "one-recentred" else ("binary", 2)
    facts = DataFacts(name="m", task=task, classes=classes, columns=5, record_norm=1.0, table=None)
    request = Request(epsilon=1.0, delta=1e-5, algorithm=name, centre=True, rounds=5)
    if name in {"dvp", "one-recentred"}:
        with pytest.raises(InputError, match="leave the centre out"):
            propose(facts, (900,) * 3, request)
    else:
        assert propose(facts, (900,) * 3, request).plan().certificate.epsilon <= 1
