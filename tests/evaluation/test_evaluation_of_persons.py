"""Whole persons are held out, each counts once, and all rows of one move the answer by one term."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.cli.main import main
from taciturn.errors import InputError, PrivacyError
from taciturn.estimators import PrivateLogisticRegression
from taciturn.kernel.privacy import Adjacency, ReplaceOne, ZeroOut
from taciturn.kernel.questions import ClippedErrors, Counts, Point, Tally
from taciturn.kernel.records import (
    Draw,
    Persons,
    Shard,
    check_held_out,
    held_out_counts,
    hold_out,
    numbered,
)
from taciturn.problems import Squared, facts_from
from taciturn.problems.problem import Problem
from taciturn.problems.regularisers import NoRegulariser
from taciturn.problems.sets import WholeSpace
from taciturn.training.evaluation import Scale, score_of_labels

K, PERSONS = 3, 2


class EveryRow(Tally):
    """Planted fault: every row counts, under the bound of persons who count once."""

    def exact(self, shard, count, query):
        return Tally(self.classes).exact(shard, count, query)


def largest(oracle, adjacency, *, trials=150):
    """The largest change in units of the bound, over rows and numbers of rows of one person."""
    problem = Problem(Squared(), NoRegulariser(), WholeSpace())
    spec = facts_from(problem, [K * PERSONS], features=2, record_norm=1.0, clip=1.0)
    bound = oracle.bound(spec, adjacency, norm="l2").value[0, 0, 0]
    draw, found = np.random.default_rng(0), 0.0
    exact = jax.jit(lambda shard: oracle.exact(shard, jnp.asarray(6.0), Point(jnp.ones(2) / 2)))
    for _ in range(trials):
        shards = []
        rows, targets = draw.uniform(-1, 1, (6, 2)), np.sign(draw.standard_normal(6))
        mask = np.repeat([[1.0], [1.0]], K, axis=1).ravel()
        for side in range(2):
            x, y, there = rows.copy(), targets.copy(), mask.copy()
            alike = draw.random() < 0.5
            x[:K] = draw.choice([-1, 1]) if alike else draw.uniform(-1, 1, (K, 2))
            y[:K] = draw.choice([-1, 1]) if alike else np.sign(draw.standard_normal(K))
            there[1:K] = draw.integers(0, 2, K - 1)
            if side and isinstance(adjacency.relation, ZeroOut):
                x, y, there = shards[0].features, shards[0].targets, shards[0].mask.at[:K].set(0)
            shards.append(Shard(jnp.asarray(x), jnp.asarray(y), jnp.asarray(there)))
        one, other = (exact(shard) for shard in shards)
        found = max(found, float(jnp.linalg.norm(one - other)) / bound)
    return found


@pytest.mark.parametrize("relation", [ReplaceOne(), ZeroOut()])
def test_a_person_with_other_rows_more_or_fewer_moves_the_answer_by_its_bound_and_reaches_it(
    relation,
):
    adjacency = Adjacency(relation, "person", K)
    found = largest(Tally(2, rows_per_person=K), adjacency)
    assert 0.999 <= found <= 1 + 1e-12
    beside = largest(Tally(2, rows_per_person=K, offsets=0.25), adjacency)
    assert 0.96 <= beside <= 1 + 1e-12
    assert largest(EveryRow(2, rows_per_person=K), adjacency) > 2.9
    assert largest(ClippedErrors(rows_per_person=K), adjacency) <= 1 + 1e-12
    assert 0.999 <= largest(Counts((2, 3), rows_per_person=K), adjacency) <= 1 + 1e-12


def test_the_bound_is_that_of_one_term_a_person_and_refuses_other_persons():
    problem = Problem(Squared(), NoRegulariser(), WholeSpace())
    spec = facts_from(problem, [12, 6], features=2, record_norm=1.0, clip=1.0)
    question = Tally(2, rows_per_person=K)

    def value(unit, rows=None):
        return question.bound(spec, Adjacency(ReplaceOne(), unit, rows), norm="l2").value.ravel()

    assert value("person", K).tolist() == [math.sqrt(2)] * 2
    assert value("agent").tolist() == [4 * math.sqrt(2), 2 * math.sqrt(2)]
    with pytest.raises(InputError, match="persons with 2"):
        value("person", 2)
    with pytest.raises(InputError, match="7 places are not 3"):
        question.exact(
            Shard(jnp.ones((7, 2)), jnp.ones(7), jnp.ones(7)), jnp.asarray(7.0), Point(jnp.ones(2))
        )


def rows_by_person(extra):
    """The persons of a table's rows; person 3 has `extra` rows more, and the others stay."""
    order = [0, 1, 0, 2, 3, 4, 2, 5, 6, 7, 1, 8, 9]
    return np.array(order[:5] + [3] * extra + order[5:])


@pytest.mark.parametrize("seed", range(3))
def test_who_is_held_out_does_not_depend_on_how_many_rows_a_person_has(seed):
    sides = []
    for extra in (0, 4):
        persons = Persons(rows_by_person(extra), 2)
        rows = np.arange(len(persons.numbers))
        kept, held = hold_out([rows], 0.3, seed=seed, persons=persons)
        check_held_out(kept, held, persons)
        assert sorted([*kept[0], *held[0]]) == rows.tolist()
        sides.append(sorted(set(persons.numbers[held[0]].tolist())))
        assert len(sides[-1]) == 3
    assert sides[0] == sides[1]


def test_rows_held_out_one_by_one_split_persons_which_is_caught():
    persons = Persons(rows_by_person(4), 2)
    kept, held = hold_out([np.arange(17)], 0.3, seed=0)
    with pytest.raises(PrivacyError, match="persons are trained on and held out"):
        check_held_out(kept, held, persons)
    assert held_out_counts((20, 6), 0.3, rows_per_person=2) == (6, 2)


def covered(*, as_persons, repetitions):
    """How often the interval of the error holds it, of persons whose three rows are alike."""
    draw = np.random.default_rng(0)
    chances = draw.dirichlet(np.full(20, 0.5))
    wrong = np.not_equal(np.arange(20) >= 10, np.arange(20) % 10 >= 5)
    truth, noise, persons = float(chances[wrong].sum()), 3.0, 400
    found = 0
    for _ in range(repetitions):
        counts = draw.multinomial(persons, chances).astype(float)
        units = persons
        if not as_persons:
            counts, units = 3 * counts, 3 * persons
        counts += noise * draw.standard_normal(20)
        scale = Scale(("no", "yes"), 1.0)
        error = score_of_labels(Tally(2), counts, units, noise**2, scale).error
        found += error.low <= truth <= error.high
    return found / repetitions


def test_intervals_of_persons_counted_by_rows_hold_the_error_less_often():
    assert covered(as_persons=True, repetitions=100) >= 0.9
    assert covered(as_persons=False, repetitions=100) < 0.85


@pytest.mark.slow
def test_intervals_hold_the_mean_error_where_rows_of_a_person_differ():
    draw = np.random.default_rng(1)
    held, truth = [], 0.3
    for _ in range(1000):
        rate = draw.beta(3, 7, 300)  # of each person
        rows = draw.integers(1, 6, 300)
        wrong = draw.binomial(rows, rate) / rows
        counts = np.zeros(20)
        counts[0], counts[9] = np.sum(1 - wrong), np.sum(wrong)
        counts += 2.0 * draw.standard_normal(20)
        score = score_of_labels(Tally(2), counts, 300, 4.0, Scale(("a", "b"), 1.0))
        held.append(score.error.low <= truth <= score.error.high)
    assert np.mean(held) >= 0.95


@pytest.fixture(scope="module")
def patients():
    draw = np.random.default_rng(0)
    people = draw.permutation(np.repeat(np.arange(120), draw.integers(1, 5, 120)))
    ages = draw.uniform(20, 80, (len(people), 1))
    return ages, ages[:, 0] + 5 * draw.standard_normal(len(people)) > 50, people


def fitted(patients, **more):
    ages, ill, people = patients
    settings = {"epsilon": 5.0, "delta": 1e-4, "bounds": (0, 120), "classes": [False, True]}
    model = PrivateLogisticRegression(
        **settings, rounds=3, rows_per_person=4, evaluate=0.25, **more
    )
    return model.fit(ages, ill, agents=2, persons=people)


def test_persons_held_out_of_a_fit_do_not_reach_it_and_cost_no_more(patients):
    model = fitted(patients, random_state=3)
    score, certificate = model.private_score_, model.certificate_
    assert (score.records, score.unit) == (30, "person")
    moved = math.sqrt(2 + 1.5 / 16)  # by a person in one count, and in offsets beside it
    assert score.noise == pytest.approx(math.sqrt(2) * moved / certificate.mu, rel=1e-5)
    assert (certificate.unit, certificate.adjacency.rows_per_person) == ("person", 4)
    assert certificate.mu == pytest.approx(model.plan_.certificate.mu, rel=1e-6)
    assert "each person is in one of the parts" in certificate.conditions[-1]
    ages, ill, people = patients
    persons = Persons(numbered(map(str, people)), 4)
    _, held = hold_out(persons.deal(2, Draw(seed=0)), 0.25, seed=0, persons=persons)
    out = np.concatenate(held)
    other = ages.copy()
    other[out] = 100 - other[out]
    again = fitted((other, ill, people), random_state=3)
    np.testing.assert_array_equal(model.coef_, again.coef_)
    assert again.private_score_ != score
    other = 100 - ages
    assert np.any(fitted((other, ill, people), random_state=3).coef_ != model.coef_)


BOUNDS = """
source = "public"
ignore = ["who"]
[target]
name = "ill"
values = ["False", "True"]
[columns.age]
min = 0.0
max = 120.0
"""


@pytest.mark.slow
def test_a_table_with_persons_is_evaluated_by_person(patients, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    open_account("ward", Guarantee(9.0, 1e-3), AccountTerms(unit="person"), folder=tmp_path)
    ages, ill, people = patients
    cells = zip(people.tolist(), ages[:, 0].tolist(), ill.tolist(), strict=True)
    lines = ["who,age,ill", *(f"p{who},{age},{label}" for who, age, label in cells)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    (tmp_path / "b.toml").write_text(BOUNDS)
    run = [
        *("train", tmp_path / "t.csv", "--target", "ill", "--bounds", tmp_path / "b.toml"),
        *("--epsilon", 5, "--delta", 1e-4, "--rounds", 25, "--no-centre", "--agents", 2),
        *("--person-column", "who", "--rows-per-person", 4, "--evaluate", 0.25),
    ]
    account = ["--account", "ward", "--accounts", tmp_path]
    assert main([*map(str, run), *map(str, account), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "90 persons with up to 4 rows each, 2 agents; 30 persons held out" in said
    assert "from 30 persons held out" in said
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert (results["private_score"]["records"], results["private_score"]["unit"]) == (30, "person")
    assert "p11" not in said
    many = [*map(str, run), "--agents-per-person", "2"]
    assert main(many) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "at several agents" in error


def test_every_person_counts_once_whatever_the_rows():
    mask = jnp.array([1.0, 1, 0, 1, 0, 0])
    targets = jnp.array([1.0, -1, 9, -1, 9, 9])
    shard = Shard(jnp.ones((6, 1)), targets, mask)
    counts = Tally(2, rows_per_person=3).exact(shard, jnp.asarray(6.0), Point(jnp.ones(1)))
    assert counts.reshape(2, 10).sum(axis=1).tolist() == [1.5, 0.5]
