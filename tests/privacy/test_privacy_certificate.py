import dataclasses
import json
import math

import numpy as np
import pytest
from scipy import stats
from tests.privacy.certified import certify

from taciturn.certificates import stated
from taciturn.errors import InputError
from taciturn.kernel.privacy import (
    Adjacency,
    Gaussian,
    Laplace,
    LaplaceAnswer,
    Ledger,
    Messages,
    NoNoise,
    ReplaceOne,
    Sum,
    ZeroOut,
    account,
    epsilon_of,
)

RECORD = Adjacency(ReplaceOne(), "record")


def ledger(ratios, rounds=25, mechanism=None):
    shape = (len(ratios), rounds, 1)
    sensitivity = np.broadcast_to(np.array(ratios)[:, None, None], shape)
    return Ledger(np.zeros(shape, int), sensitivity, np.ones(shape), mechanism or Gaussian())


def issue(book, observer=None):
    return certify(book, delta=1e-6, adjacency=RECORD, observer=observer or Messages())


def test_the_worst_agent_decides_and_its_own_answers_add_up():
    found = issue(ledger([0.02, 0.2, 0.1]))
    assert found.mu == pytest.approx(1.0, rel=1e-12)
    assert found.epsilon == pytest.approx(4.88655, abs=6e-6)
    assert found.per_agent_mu == pytest.approx((0.1, 1.0, 0.5), rel=1e-12)
    assert found.per_agent_epsilon == pytest.approx((0.39686, 4.88655, 2.25408), abs=6e-6)
    assert found.attacker_tpr == pytest.approx(stats.norm.sf(stats.norm.isf(0.01) - 1.0), rel=1e-9)


def test_two_agents_with_disjoint_data_are_not_summed():
    # simulate the attacker's statistic when only agent 0 differs: agent 1 carries no evidence
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((200_000, 2))
    evidence = noise @ np.array([1.0, 0.0])
    rate = np.mean(evidence + 1.0 > np.quantile(evidence, 0.99))
    assert issue(ledger([0.2, 0.2])).attacker_tpr == pytest.approx(rate, abs=0.01)


def test_the_sum_is_credited_for_gaussian_noise_and_says_what_it_trusts():
    book = ledger([0.1] * 5)
    found = issue(book, Sum(colluders=1))
    # five agents, one colluder: four honest noises of variance one
    assert found.mu == pytest.approx(0.5 / 2, rel=1e-12)
    assert found.epsilon == pytest.approx(epsilon_of(1e-6, 0.25), rel=1e-9)
    assert "secure aggregation" in found.trust
    assert issue(book).trust.startswith("none")


def test_a_laplace_sum_is_certified_at_the_messages_value_and_says_so():
    book = ledger([1 / 30, 1 / 60], rounds=100, mechanism=Laplace())
    messages, total = issue(book), issue(book, Sum(0))
    assert messages.epsilon == total.epsilon == pytest.approx(1.4159, abs=6e-5)
    assert "post-processing" in total.trust
    assert "post-processing" not in messages.trust
    assert messages.mu is None
    assert messages.per_agent_mu is None
    single = account([(LaplaceAnswer(60.0), 100)], delta=1e-6, relation=ReplaceOne())
    assert messages.per_agent_epsilon[1] == pytest.approx(single.epsilon, rel=1e-9)


def test_the_attacker_bound_without_mu_holds_against_the_best_laplace_attack():
    found = issue(ledger([0.5, 0.1], rounds=1, mechanism=Laplace()))
    noise = np.random.default_rng(0).laplace(size=2_000_000)
    # beyond the shift the likelihood ratio is largest and constant: this test is a best one
    rate = np.mean(noise + 0.5 > np.quantile(noise, 0.99))
    assert found.attacker_tpr == pytest.approx(rate, rel=0.03)
    assert found.attacker_tpr == pytest.approx(0.01 * math.exp(0.5), rel=1e-3)


def test_a_halved_scale_changes_the_certificate():
    assert issue(ledger([0.2])).epsilon > 1.9 * issue(ledger([0.1])).epsilon


@pytest.mark.parametrize("mechanism", [Gaussian(), Laplace(), NoNoise()])
def test_an_answer_without_noise_gives_infinity_and_no_privacy(mechanism):
    shape = (2, 3, 1)
    scale = np.zeros(shape)
    book = Ledger(np.zeros(shape, int), np.ones(shape), scale, mechanism)
    for observer in (Messages(), Sum()):
        found = issue(book, observer)
        assert found.epsilon == math.inf
        assert found.attacker_tpr == 1
        assert any("no privacy" in line for line in found.lines())
        assert json.loads(json.dumps(stated(found), allow_nan=False))["epsilon"] == "infinity"


def test_a_ledger_without_questions_costs_nothing():
    shape = (2, 3, 1)
    book = Ledger(np.full(shape, -1), np.ones(shape), np.ones(shape), Laplace())
    assert issue(book).epsilon == 0


def test_a_reproduction_is_stamped_as_not_private():
    found = issue(ledger([0.1])).stamped()
    assert found.lines()[0].startswith("reproduction, not private")
    assert found.attacker_tpr == 1
    assert stated(found)["reproduction"] is True


def test_the_sentences_hold_everything_needed_to_read_the_promise():
    found = certify(
        ledger([0.1]),
        delta=1e-5,
        adjacency=Adjacency(ZeroOut(), "agent"),
        observer=Sum(2),
    ).under(["feature ranges were public"], conditional=False)
    text = "\n".join(found.lines())
    for part in ("zero_out", "agent", "1e-05", "sum", "at most 2", "feature ranges were public"):
        assert part in text
    printed = float(text.split("epsilon = ")[1].split()[0])
    assert found.epsilon <= printed <= found.epsilon + 1e-4


def test_a_conditional_certificate_begins_with_the_word():
    firm = issue(ledger([0.1])).under(["ranges were read off the records"], conditional=False)
    found = dataclasses.replace(firm, conditional=True)
    assert firm.lines()[0].startswith("epsilon = ")
    assert found.lines()[0].startswith("Conditional")
    assert "epsilon = " in found.lines()[0]
    assert stated(found)["conditional"] is True
    seeded = dataclasses.replace(found, reproduction=True)
    assert seeded.lines()[0].startswith("reproduction, not private")
    assert seeded.lines()[1].startswith("Conditional")


def test_every_certificate_says_that_it_is_of_one_run_alone():
    for found in (issue(ledger([0.1])), issue(ledger([0.1])).stamped()):
        (said,) = [line for line in found.lines() if line.startswith("Scope")]
        assert "this run alone" in said
        assert not found.conditional
        assert found.conditions == ()


def test_the_record_of_a_certificate_is_plain_json():
    found = issue(ledger([0.1, 0.2])).under(["x"], conditional=False)
    again = json.loads(json.dumps(stated(found), allow_nan=False))
    assert again == stated(found)
    assert again["per_agent_epsilon"] == list(found.per_agent_epsilon)
    assert again["conditions"] == ["x"]


def test_delta_must_be_a_probability():
    with pytest.raises(InputError, match="delta"):
        certify(ledger([0.1]), delta=0.0, adjacency=RECORD, observer=Messages())
