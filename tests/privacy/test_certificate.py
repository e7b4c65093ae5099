"""What a certificate says: figures of ledgers, bounds of questions, units, and its words."""

import dataclasses
import json
import math

import numpy as np
import pytest
from scipy import stats
from tests.privacy.certified import RECORD, book, certify, person

from taciturn.certificates import stated
from taciturn.errors import InputError
from taciturn.kernel.privacy import (
    Adjacency,
    BoundedChange,
    Gaussian,
    Laplace,
    LaplaceAnswer,
    Ledger,
    Messages,
    NoNoise,
    ReplaceOne,
    SensitivityBound,
    Sum,
    TargetChange,
    ZeroOut,
    account,
    epsilon_of,
)
from taciturn.kernel.questions import bound_of
from taciturn.kernel.records import Spec
from taciturn.names import observer_named, relation_named

FIFTH = book([0.2], rounds=25)


def of_persons(mechanism=None, times=1.0):
    """Three agents with noise of their own; agent 1 moves furthest."""
    return book(times * np.array([0.25, 0.5, 0.5]), 2, mechanism, scale=(4.0, 4.0, 1.0))


def test_the_worst_agent_decides_and_its_own_answers_add_up():
    found = certify(book([0.02, 0.2, 0.1], 25))
    assert found.mu == pytest.approx(1.0, rel=1e-12)
    assert found.epsilon == pytest.approx(4.88655, abs=6e-6)
    assert found.per_agent_mu == pytest.approx((0.1, 1.0, 0.5), rel=1e-12)
    assert found.per_agent_epsilon == pytest.approx((0.39686, 4.88655, 2.25408), abs=6e-6)
    assert found.attacker_tpr == pytest.approx(stats.norm.sf(stats.norm.isf(0.01) - 1.0), rel=1e-9)
    # planted: noise that was halved
    assert certify(book([0.02, 0.4, 0.1], 25)).epsilon > 1.9 * found.epsilon


def test_the_sum_is_credited_for_gaussian_noise_and_says_what_it_trusts():
    answers = book([0.1] * 5, 25)
    found = certify(answers, observer=Sum(colluders=1))
    # five agents, one colluder: four honest noises of variance one
    assert found.mu == pytest.approx(0.5 / 2, rel=1e-12)
    assert found.epsilon == pytest.approx(epsilon_of(1e-6, 0.25), rel=1e-9)
    assert "secure aggregation" in found.trust
    assert certify(answers).trust.startswith("none")


def test_a_laplace_sum_is_certified_at_the_messages_value_and_says_so():
    answers = book([1 / 30, 1 / 60], 100, Laplace())
    messages, total = certify(answers), certify(answers, observer=Sum(0))
    assert messages.epsilon == total.epsilon == pytest.approx(1.4159, abs=6e-5)
    assert "post-processing" in total.trust
    assert "post-processing" not in messages.trust
    assert (messages.mu, messages.per_agent_mu) == (None, None)
    single = account([(LaplaceAnswer(60.0), 100)], delta=1e-6, relation=ReplaceOne())
    assert messages.per_agent_epsilon[1] == pytest.approx(single.epsilon, rel=1e-9)


def test_the_attacker_bound_without_mu_holds_against_the_best_laplace_attack():
    found = certify(book([0.5, 0.1], 1, Laplace()))
    # beyond the shift the likelihood ratio is largest and constant: a threshold there is a best one
    rate = stats.laplace.sf(stats.laplace.isf(0.01) - 0.5)
    assert found.attacker_tpr == pytest.approx(rate, rel=1e-3)


@pytest.mark.parametrize("mechanism", [Gaussian(), Laplace(), NoNoise()])
def test_an_answer_without_noise_gives_infinity_and_no_privacy(mechanism):
    shape = (2, 3, 1)
    bare = Ledger(np.zeros(shape, int), np.ones(shape), np.zeros(shape), mechanism)
    for observer in (Messages(), Sum()):
        found = certify(bare, observer=observer)
        assert (found.epsilon, found.attacker_tpr) == (math.inf, 1)
        assert any("no privacy" in line for line in found.lines())
        assert json.loads(json.dumps(stated(found), allow_nan=False))["epsilon"] == "infinity"
    silent = Ledger(np.full(shape, -1), np.ones(shape), np.ones(shape), Laplace())
    assert certify(silent).epsilon == 0


# words


def test_the_sentences_hold_everything_needed_to_read_the_promise():
    terms = {"delta": 1e-5, "adjacency": Adjacency(ZeroOut(), "agent"), "observer": Sum(2)}
    ranges = "feature ranges were public"
    found = certify(book([0.2] * 4), **terms).under([ranges], conditional=False)
    text = "\n".join(found.lines())
    for part in ("zero_out", "agent", "1e-05", "sum", "at most 2", ranges):
        assert part in text
    printed = float(text.split("epsilon = ")[1].split()[0])
    assert found.epsilon <= printed <= found.epsilon + 1e-4
    again = json.loads(json.dumps(stated(found), allow_nan=False))
    assert again == stated(found)
    assert again["per_agent_epsilon"] == list(found.per_agent_epsilon)
    assert again["conditions"] == ["feature ranges were public"]


def test_a_reproduction_and_a_condition_come_first_and_every_certificate_is_of_one_run():
    plain = certify(FIFTH)
    firm = plain.under(["ranges were read off the records"], conditional=False)
    found = dataclasses.replace(firm, conditional=True)
    seeded = found.stamped()
    assert firm.lines()[0].startswith("epsilon = ")
    assert found.lines()[0].startswith("Conditional")
    assert "epsilon = " in found.lines()[0]
    assert stated(found)["conditional"] is True
    assert seeded.lines()[0].startswith("reproduction, not private")
    assert seeded.lines()[1].startswith("Conditional")
    assert (seeded.attacker_tpr, stated(seeded)["reproduction"]) == (1, True)
    for one in (plain, plain.stamped()):
        (said,) = [line for line in one.lines() if line.startswith("Scope")]
        assert "this run alone" in said
        assert (one.conditional, one.conditions) == (False, ())


def test_delta_must_be_a_probability():
    with pytest.raises(InputError, match="delta"):
        certify(FIFTH, delta=0.0)


# bounds of a mean

COUNTS, C, D = (5, 12), 0.7, 4
SPEC = Spec(COUNTS, (D,), record_norm=1.0, gradient_bound=C, smoothness=1.0)
MEAN = {"kind": "mean", "coefficient": C, "row": 1.0}


def bounds(adjacency, norm="l2", **facts):
    return bound_of({**MEAN, **facts}, SPEC, adjacency, norm).value.ravel()


def gradients(rng, count, norm):
    if norm == "l1":  # sign vectors reach the 1-norm's bound
        raw = rng.choice([-1.0, 1.0], size=(count, D)) * rng.uniform(0.9, 1.0)
    else:
        raw = rng.standard_normal((count, D))
    radius = rng.uniform(0.3, 1, (count, 1)) if rng.random() < 0.5 else 1.0
    return C * radius * raw / np.linalg.norm(raw, axis=1, keepdims=True)


def neighbour(rng, relation, unit, data, norm):
    other = data.copy()
    rows = slice(None) if unit == "agent" else slice(rng.integers(len(data)), None, len(data))
    if isinstance(relation, ZeroOut):
        other[rows] = 0
    elif rng.random() < 0.5:
        other[rows] = -data[rows]
    else:
        other[rows] = gradients(rng, len(data), norm)[rows]
    return other


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("unit", ["record", "agent"])
@pytest.mark.parametrize("relation", [ReplaceOne(), ZeroOut(), BoundedChange(9.0)])
def test_no_neighbouring_data_set_moves_the_mean_further_than_the_bound(relation, unit, norm):
    rng = np.random.default_rng(3)
    for count, bound in zip(COUNTS, bounds(Adjacency(relation, unit), norm), strict=True):
        moves = []
        for _ in range(400):
            data = gradients(rng, count, norm)
            if rng.random() < 0.3:
                data = np.repeat(data[:1], count, axis=0)  # aligned records saturate the agent unit
            other = neighbour(rng, relation, unit, data, norm)
            moves.append(np.linalg.norm(data.mean(0) - other.mean(0), int(norm[1])))
        assert max(moves) <= bound * (1 + 1e-12)
        assert max(moves) >= 0.9 * bound  # so a bound that is 10 % too small is caught
    assert np.isinf(bounds(Adjacency(relation, unit), norm, coefficient=math.inf)).all()


def test_the_derivation_says_which_argument_was_used():
    found, same = (
        bound_of(MEAN, SPEC, Adjacency(relation, "record"), "l1")
        for relation in (BoundedChange(0.1), TargetChange(0.1))
    )
    assert np.array_equal(found.value, same.value)
    assert found.derivation == same.derivation
    assert all(part in found.derivation for part in ("special case", "sqrt(dimension)", "2c/m_i"))


@pytest.mark.unchecked
def test_a_malformed_bound_relation_unit_or_observer_is_refused():
    one = np.ones((1, 1, 1))
    for value, norm in ((one * np.nan, "l2"), (-one, "l2"), (np.ones((2, 2)), "l2"), (one, "linf")):
        with pytest.raises(InputError):
            SensitivityBound(value, norm, RECORD, "by hand")
    for call in (
        lambda: Adjacency("replace_one", "record"),
        lambda: Adjacency(ReplaceOne(), "user"),
        lambda: BoundedChange(0.0),
        lambda: BoundedChange(math.nan),
        lambda: TargetChange(0.0),
        lambda: TargetChange(math.inf),
        lambda: Sum(colluders=-1),
        lambda: bounds(Adjacency(ZeroOut(), "record"), "l3"),
    ):
        with pytest.raises(InputError):
            call()


def test_a_bound_cannot_be_changed_afterwards():
    source = np.ones((1, 1, 1))
    bound = SensitivityBound(source, "l2", RECORD, "by hand")
    source[:] = 0
    assert bound.value[0, 0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        bound.value[0, 0, 0] = 0


def test_relations_and_observers_are_found_by_name_and_described_in_a_sentence():
    assert (relation_named("replace_one"), relation_named("zero_out")) == (ReplaceOne(), ZeroOut())
    assert (observer_named("messages"), observer_named("sum")) == (Messages(), Sum(colluders=1))
    for call, words in (
        (lambda: relation_named("swap"), "replace_one, zero_out"),
        (lambda: relation_named("target_change"), r"construct .*TargetChange\(beta\)"),
        (lambda: observer_named("everyone"), "messages, sum"),
    ):
        with pytest.raises(InputError, match=words):
            call()
    for relation in (ReplaceOne(), ZeroOut(), BoundedChange(0.25), TargetChange(0.25, "demand")):
        texts = {Adjacency(relation, unit).describe() for unit in ("record", "agent")}
        assert len(texts) == 2
        assert all(text.endswith(".") and "record" in text for text in texts)
    said = TargetChange(0.25, "demand").describe("record")
    assert all(word in said for word in ("target", "demand", "0.25", "features are public"))


# persons


@pytest.mark.parametrize("relation", [ReplaceOne(), ZeroOut(), TargetChange(0.5)])
def test_a_person_moves_a_mean_k_times_as_far_as_a_record_and_never_further_than_an_agent(relation):
    one, five, most, everything = (
        bounds(adjacency)
        for adjacency in (
            Adjacency(relation, "record"), person(5, relation=relation),
            person(100, relation=relation), Adjacency(relation, "agent"),
        )
    )  # fmt: skip
    np.testing.assert_allclose(five, 5 * one)
    np.testing.assert_allclose(most, everything)


def test_a_person_at_several_agents_is_charged_for_all_of_them():
    answers, mus = of_persons(), np.sqrt(2) * np.array([0.25, 0.5, 0.5])
    assert answers.mu_across(Messages(), 1) == pytest.approx(mus.max())
    assert answers.mu_across(Messages(), 2) == pytest.approx(math.hypot(mus[1], mus[2]))
    assert answers.mu_across(Messages(), 9) == pytest.approx(np.linalg.norm(mus))
    # in a sum the changes add up; one of the two largest noises may be known
    assert answers.mu_across(Sum(0), 2) == pytest.approx(math.sqrt(2) * 3 / math.sqrt(33))
    assert answers.mu_across(Sum(1), 3) == pytest.approx(math.sqrt(2) * 3.5 / math.sqrt(17))
    assert answers.mu_across(Sum(7), 3) == pytest.approx(math.sqrt(2) * 3.5)
    assert answers.mu_across(Sum(1), 2) >= answers.mu_per_agent(Sum(1)).max()


def test_the_certificate_knows_the_person_and_says_otherwise_what_several_rows_cost():
    found = certify(of_persons(), adjacency=person(5, 2))
    assert found.mu == pytest.approx(1.0)
    assert found.epsilon == pytest.approx(epsilon_of(1e-6, 1.0))
    assert found.epsilon > max(found.per_agent_epsilon)
    said = "\n".join(found.lines())
    assert "unit person" in said
    assert "5 places at each of up to 2 agents" in said
    assert "k times" not in said
    assert (stated(found)["rows_per_person"], stated(found)["agents_per_person"]) == (5, 2)
    for mechanism, cost in ((Gaussian(), "k times mu"), (Laplace(), "k times epsilon")):
        found = certify(of_persons(mechanism))
        assert f"Persons: a person with k rows is protected at {cost}" in "\n".join(found.lines())
        assert "rows_per_person" not in stated(found)
    # k times mu is what k rows cost: their bound is k times that of one
    together = certify(of_persons(times=4), adjacency=person(4))
    assert together.mu == pytest.approx(4 * certify(of_persons()).mu)


def test_persons_that_nothing_accounts_for_are_refused():
    for wrong in (
        lambda: Adjacency(ReplaceOne(), "person"),
        lambda: Adjacency(ReplaceOne(), "record", 5),
        lambda: Adjacency(ReplaceOne(), "agent", None, 2),
        lambda: person(0),
        lambda: person(2, 0),
    ):
        with pytest.raises(InputError):
            wrong()
    with pytest.raises(InputError, match="added Gaussian noise only"):
        certify(of_persons(Laplace()), adjacency=person(2, 2))
    with pytest.raises(InputError, match="hides no person"):
        certify(book([1.0], 1, rate=np.full((1, 1, 1), 0.5)), adjacency=person())
