"""What is computed: sums of rows in blocks and in single precision, and answers on a lattice."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import ROUNDED, make_plan, make_shards, packed, plan_of
from taciturn.algorithms import ADMM, at_agents
from taciturn.audit import replace_record
from taciturn.engine import records_for_door, run
from taciturn.errors import PrivacyError
from taciturn.kernel.door import opening
from taciturn.kernel.door.door import exact_power_of_two
from taciturn.kernel.door.opening import check_arithmetic
from taciturn.kernel.privacy import Adjacency, ReplaceOne
from taciturn.kernel.questions import (
    Around,
    Centre,
    CentredGradient,
    Gradient,
    OnLattice,
    Point,
    ProjectedStep,
    ProximalStep,
    Step,
    minimisers,
    sums,
)
from taciturn.kernel.records import for_exact_sums
from taciturn.problems import (
    L2,
    Logistic,
    MultinomialLogistic,
    Problem,
    Simplex,
    Squared,
    public_facts,
)

STEPS = [2.0**-30, 2.0**20]


def rounded(values, step):
    return np.asarray(OnLattice(jnp.zeros(np.shape(values)), jnp.asarray(step)).added_to(values))


def pairs(step, distance, seed=0):
    """Numbers that differ by `distance` steps at most, and lie anywhere between the lattice."""
    draw = np.random.default_rng(seed)
    here = draw.uniform(-1e6, 1e6, 20_000) * step
    there = here + draw.uniform(-distance, distance, 20_000) * step
    return jnp.asarray(here), jnp.asarray(there)


def spread(added, here, there, step):
    """By how many steps two answers differ more on the lattice than they did before, at most."""
    before = np.abs(np.asarray(here) - np.asarray(there))
    after = np.abs(added(here) - added(there))
    return float(np.max(after - before) / step)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("distance", [0.1, 1.0, 37.5])
def test_two_answers_differ_by_at_most_two_steps_more_on_the_lattice(step, distance):
    here, there = pairs(step, distance)
    assert 0.5 < spread(lambda x: rounded(x, step), here, there, step) <= 2
    # answers that were divided, each with three roundings, as an agent's mean and its parts are
    third = [x / 3 * 7 / 7 for x in (here, there)]
    assert spread(lambda x: rounded(x, step), *third, step) <= 2


def test_numbers_that_are_added_without_being_rounded_are_told_apart():
    """The planted fault: the sum of answer and noise is rounded, in single precision."""
    here, there = pairs(1.0, 1.0)

    def single(values):
        return np.asarray((values + 2.0**27).astype(jnp.float32) - 2.0**27, np.float64)

    assert spread(single, here, there, 1.0) > 2


@pytest.mark.parametrize("step", STEPS)
def test_answers_and_noise_on_a_lattice_are_added_exactly(step):
    draw = np.random.default_rng(0)
    exact = jnp.asarray(draw.standard_normal(1000) * step * 1e5)
    noise = jnp.asarray(draw.integers(-(2**49), 2**49, 1000) * step)
    added = np.asarray(OnLattice(noise, jnp.asarray(step)).added_to(exact))
    whole = np.rint(np.asarray(exact) / step).astype(np.int64)
    sums = whole + (np.asarray(noise) / step).astype(np.int64)
    np.testing.assert_array_equal(added / step, sums.astype(float))
    assert np.any(np.asarray(exact + noise) != added)  # the planted fault: no rounding before


def test_what_is_not_a_number_is_told_as_0_and_what_is_too_large_as_the_last_step():
    step = 2.0**-10
    values = jnp.asarray([math.nan, math.inf, -math.inf, 1e300, -1e300, 2.0**51 * step, 0.3])
    last = 2.0**51 * step
    expected = [0.0, last, -last, last, -last, last, round(0.3 / step) * step]
    np.testing.assert_array_equal(rounded(values, step), expected)
    noise = jnp.asarray([step, -step])
    added = OnLattice(noise, jnp.asarray(step)).added_to(jnp.asarray([math.nan, math.inf]))
    np.testing.assert_array_equal(added, [step, last - step])


def test_without_noise_answers_are_not_rounded():
    values = jnp.asarray([0.3, 1e-300])
    np.testing.assert_array_equal(OnLattice(jnp.zeros(2), None).added_to(values), values)


def test_the_step_is_a_power_of_two_to_the_last_bit():
    exponents = np.arange(-1022, 1024)
    steps = np.asarray(exact_power_of_two(jnp.asarray(exponents, jnp.int32)))
    np.testing.assert_array_equal(steps, np.ldexp(1.0, exponents))


def test_seeded_noise_stands_on_the_lattice_too():
    shards = make_shards()
    made = make_plan("noisy-gradient", shards)
    done = run(made, shards, runtime="simulate", seed=0, keep=frozenset({"answers"}))
    answers = np.asarray(done.trace.records.answer)
    steps = np.moveaxis(made.ledger.step, 0, -1)[..., None]
    np.testing.assert_array_equal(answers, np.rint(answers / steps) * steps)


def test_a_run_on_another_lattice_than_planned_releases_nothing():
    shards = make_shards()
    made = make_plan("noisy-gradient", shards)
    for change in (-1, 1):
        program = dataclasses.replace(made.program, exponents=made.program.exponents + change)
        with pytest.raises(PrivacyError, match="lattice of step"):
            run(dataclasses.replace(made, program=program), shards, runtime="simulate", seed=0)


MANY_ROWS, SEVEN = 997, 7  # in blocks of 19 rows: the last two begin before the end of others
RIDGE = Problem(Logistic(), L2(0.1))
PLAIN = Problem(Logistic())
RHO = 0.5
QUESTIONS = {
    "proximal": ProximalStep(at_agents(RIDGE, "server"), 1.0, RHO, 1.0),
    "projected": ProjectedStep(PLAIN, 1.0),
}


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_bound_of_a_step_is_that_of_real_numbers_and_what_it_rounds(name, norm):
    question = QUESTIONS[name]
    spec, record = public_facts(RIDGE, make_shards(), clip=1.0), Adjacency(ReplaceOne(), "record")
    real = question.gradient.bound(spec, record, norm=norm).value
    real = real / (RHO if name == "proximal" else 1.0)
    found = question.bound(spec, record, norm=norm)
    np.testing.assert_allclose(found.value, real * ROUNDED, rtol=1e-12)
    assert "for rounding" in found.derivation


def test_a_plan_whose_ledger_leaves_the_rounding_out_releases_nothing():
    shards = make_shards()
    made = plan_of(
        ADMM(RIDGE, RHO, regulariser_at="server"), shards, (QUESTIONS["proximal"],), rounds=2
    )
    run(made, shards, runtime="simulate", seed=0)
    ledger = dataclasses.replace(made.ledger, sensitivity=made.ledger.sensitivity / ROUNDED)
    with pytest.raises(PrivacyError, match="planned ones"):
        run(dataclasses.replace(made, ledger=ledger), shards, runtime="simulate", seed=0)


# rows across the direction of the query, where the coefficient of the loss is at its largest
DIRECTION = np.array([0.6, -0.8, 0.1])
ACROSS = np.array([[0.8, 0.6, 0.0], [-0.8, -0.6, 0.0], [0.0, 0.1, 0.9], [0.5, 0.5, 0.5]])
ACROSS = (ACROSS + 1e-3 * DIRECTION) / 1.01


def moved(question, queries, *, on_grid=True):
    """By how much a replaced record moves the answer to each query, at most, over the bound."""
    shards = make_shards(agents=1)
    made, problem = make_plan("noisy-gradient", shards), question.problem
    spec, record = public_facts(problem, shards, clip=1.0), Adjacency(ReplaceOne(), "record")
    bound = float(question.bound(spec, record, norm="l2").value[0, 0, 0])
    ask = jax.jit(jax.vmap(question.exact, in_axes=(None, None, 0)))
    stacked, found = jax.tree.map(lambda *parts: jnp.stack(parts), *queries), []
    for data in (shards, *(replace_record(shards, 0, 0, row, -1.0) for row in ACROSS)):
        shard = jax.tree.map(lambda leaf: leaf[0], records_for_door(made, data).shard)
        if not on_grid:
            shard = dataclasses.replace(shard, grid=None)
        found.append(np.asarray(ask(shard, jnp.asarray(12.0), stacked)))
    assert np.all(np.isfinite(found))
    apart = np.array(found)[:, None] - np.array(found)[None]
    return np.max(np.linalg.norm(apart, axis=-1), axis=(0, 1)) / bound


def queries_of(name, sizes):
    """Queries of these sizes to a proximal or a projected step."""
    for size in sizes:
        point = jnp.asarray(DIRECTION * size)
        yield (
            Centre(point)
            if name == "proximal"
            else Step(point, point / 3, jnp.asarray(7.0), jnp.asarray(1 / 7))
        )


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_step_behind_the_door_moves_within_its_bound_at_every_query(name):
    sizes = np.array([0.0, 1.0, 1e3, 1e6, 1e9, 1e12, 1e30, 1e300, math.inf, math.nan])
    found = moved(QUESTIONS[name], queries_of(name, sizes))
    assert np.all(found <= 1)
    assert np.all(found[sizes <= 1e3] > 0.01)
    # answered by a rule that sees the query only
    assert np.all(found[~(sizes <= 1e12)] == 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_at_large_queries_a_step_without_that_rule_exceeds_its_bound(name, monkeypatch):
    """The planted fault: no query is too large for the rounding of double precision."""
    large = [*(k * 10.0**n for n in (14, 15, 16) for k in (1, 2, 3, 5))]
    monkeypatch.setattr(minimisers, "LARGEST", 1e60)
    # the number of records limits queries as well
    assert np.all(moved(QUESTIONS[name], queries_of(name, large)) <= 1)
    assert np.any(moved(QUESTIONS[name], queries_of(name, large), on_grid=False) > 1)


@pytest.mark.slow
def test_a_set_far_from_a_small_query_does_not_drown_a_step(monkeypatch):
    zero = [Step(jnp.zeros(3), jnp.zeros(3), jnp.asarray(7.0), jnp.asarray(1 / 7))]

    def on_simplex(total):
        return moved(ProjectedStep(Problem(Logistic(), constraint=Simplex(total)), 1.0), zero)[0]

    assert 0.01 < on_simplex(1.0) <= 1
    totals = [1e3, 1e9, 1e14, 3e14, 1e15, 3e15, 1e17]
    assert all(on_simplex(total) <= 1 for total in totals)
    # the planted fault: a rule that sees the query alone, which is 0; its projection is not
    monkeypatch.setattr(minimisers, "_size", lambda x, s, c: jnp.linalg.norm(x) * 0)
    assert any(on_simplex(total) > 1 for total in totals)


# many rows are worked on in blocks, which change no bit of an answer


def shard_and_count(targets, *, narrow=False):
    draw = np.random.default_rng(0)
    shards = packed(draw.standard_normal((MANY_ROWS, SEVEN)), targets, [np.arange(MANY_ROWS)])
    return jax.tree.map(lambda leaf: leaf[0], for_exact_sums(shards, narrow=narrow)), jnp.asarray(
        float(MANY_ROWS)
    )


def question_of_kind(kind):
    draw = np.random.default_rng(1)
    vector = jnp.asarray(draw.standard_normal(SEVEN))
    if kind == "centred":
        centre = jnp.asarray(draw.uniform(-0.3, 0.3, SEVEN))
        return CentredGradient(Gradient(Squared(), 0.5), 1.0, 0.3), Around(Point(vector), centre)
    if kind == "classes":
        matrix = jnp.asarray(draw.standard_normal((SEVEN, 3)))
        return Gradient(MultinomialLogistic(3), 1.0), Point(matrix)
    return Gradient(Squared(), 0.5), Point(vector)


def answered_in_blocks(kind, *, narrow=False):
    draw = np.random.default_rng(2)
    targets = (
        draw.integers(0, 3, MANY_ROWS) if kind == "classes" else draw.uniform(-1, 1, MANY_ROWS)
    )
    oracle, query = question_of_kind(kind)
    return np.asarray(jax.jit(oracle.exact)(*shard_and_count(targets, narrow=narrow), query))


def in_blocks(monkeypatch):
    monkeypatch.setattr(sums, "_AT_ONCE", 0)
    monkeypatch.setattr(sums, "_BLOCK", 2**10)
    monkeypatch.setattr(sums, "_LONGER", 1)


@pytest.mark.parametrize("kind", ["plain", "centred"])
def test_blocks_of_rows_change_no_bit_of_an_answer(kind, monkeypatch):
    at_once = answered_in_blocks(kind)
    in_blocks(monkeypatch)
    np.testing.assert_array_equal(answered_in_blocks(kind), at_once)


def test_blocks_of_rows_change_no_answer_of_many_classes(monkeypatch):
    at_once = answered_in_blocks("classes")
    in_blocks(monkeypatch)
    # the exponential has another last digit elsewhere in a vector, and a coefficient is then cut
    np.testing.assert_allclose(answered_in_blocks("classes"), at_once, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["plain", "centred", "classes"])
def test_rows_that_two_blocks_share_are_seen_if_both_count_them(kind, monkeypatch):
    at_once = answered_in_blocks(kind)
    in_blocks(monkeypatch)
    monkeypatch.setattr(sums, "_not_before", lambda first, places: places >= 0)
    assert np.max(np.abs(answered_in_blocks(kind) - at_once)) > 1e-4


def test_this_machine_adds_whole_numbers_exactly():
    check_arithmetic()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_machine_that_multiplies_in_fewer_digits_is_refused(monkeypatch, place):
    true = opening._products

    def short(*parts):
        found = list(true(*parts))
        narrow = [part.astype(jnp.float32).astype(jnp.float64) for part in parts]
        found[place] = true(*narrow)[place]
        return found

    monkeypatch.setattr(opening, "_products", short)
    with pytest.raises(PrivacyError, match="rounds sums"):
        check_arithmetic()


def test_without_a_seed_such_a_machine_runs_nothing_and_with_one_it_may(monkeypatch):
    shards = make_shards()
    made = make_plan("noisy-gradient", shards)
    monkeypatch.setattr(opening, "_products", lambda *parts: [part[..., 0] for part in parts[:3]])
    with pytest.raises(PrivacyError):
        run(made, shards, runtime="simulate")
    run(made, shards, runtime="simulate", seed=0)
