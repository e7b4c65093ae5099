import dataclasses
import itertools
import math
import time

import numpy as np
import pytest

from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.privacy import (
    Exact,
    Gaussian,
    GaussianAnswer,
    Laplace,
    LaplaceAnswer,
    Ledger,
    Messages,
    NoNoise,
    ReplaceOne,
    Sum,
    account,
    epsilon_of,
)


def random_ledger(seed, agents=5, rounds=4, questions=2, mechanism=None):
    rng = np.random.default_rng(seed)
    shape = (agents, rounds, questions)
    kind = rng.choice([-1, 0, 1], size=shape)
    scale = rng.choice([0.5, 1.0, 3.0], size=shape) * rng.choice([1.0, rng.uniform(1, 2)])
    return Ledger(kind, rng.uniform(0, 1, shape), scale, mechanism or Gaussian())


def changed(ledger, name, index, value):
    array = np.array(getattr(ledger, name))
    array[index] = value
    return dataclasses.replace(ledger, **{name: array})


def brute_mu(ledger, agent, colluders):
    """Try every coalition at every slot, in plain Python."""
    total = 0.0
    agents = ledger.kind.shape[0]
    for turn, question in itertools.product(*map(range, ledger.kind.shape[1:])):
        if ledger.kind[agent, turn, question] < 0:
            continue
        others = [
            ledger.scale[j, turn, question] ** 2 if ledger.kind[j, turn, question] >= 0 else 0.0
            for j in range(agents)
            if j != agent
        ]
        size = min(colluders, len(others))
        least = min(
            sum(v for j, v in enumerate(others) if j not in coalition)
            for coalition in itertools.combinations(range(len(others)), size)
        )
        variance = ledger.scale[agent, turn, question] ** 2 + least
        total += ledger.sensitivity[agent, turn, question] ** 2 / variance
    return math.sqrt(total)


@pytest.mark.parametrize("colluders", [0, 1, 2, 4, 9])
@pytest.mark.parametrize("seed", range(6))
def test_the_sum_observer_matches_every_coalition_tried_by_hand(seed, colluders):
    ledger = random_ledger(seed)
    truth = [brute_mu(ledger, agent, colluders) for agent in range(5)]
    assert ledger.mu_per_agent(Sum(colluders)) == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_messages_observer_matches_a_loop_and_never_sees_less_than_the_sum(seed):
    ledger = random_ledger(seed)
    alone = [brute_mu(ledger, agent, 4) for agent in range(5)]
    found = ledger.mu_per_agent(Messages())
    assert found == pytest.approx(alone, rel=1e-12)
    for fewer, more in itertools.pairwise([0, 1, 2, 3, 4]):
        assert np.all(ledger.mu_per_agent(Sum(fewer)) <= ledger.mu_per_agent(Sum(more)))
    assert np.all(ledger.mu_per_agent(Sum(4)) <= found)


def test_one_enormous_scale_does_not_wash_out_the_others():
    scale = np.array([1e12, 1.0, 1.0]).reshape(3, 1, 1)
    ledger = Ledger(np.zeros((3, 1, 1), int), np.ones((3, 1, 1)), scale, Gaussian())
    assert ledger.mu_per_agent(Sum(1))[1] == pytest.approx(1 / math.sqrt(2), rel=1e-12)


@pytest.mark.slow
def test_a_thousand_agents_and_five_thousand_rounds_are_quick():
    rng = np.random.default_rng(0)
    shape = (1000, 5000, 1)
    ledger = Ledger(
        np.zeros(shape, int), rng.uniform(0, 1, shape), rng.uniform(1, 2, shape), Gaussian()
    )
    start = time.perf_counter()
    ledger.mu_per_agent(Sum(1))
    assert time.perf_counter() - start < 5


def test_ratios_are_zero_or_infinite_where_they_must_be():
    kind = np.array([0, 0, 0, 0, -1]).reshape(1, 5, 1)
    sensitivity = np.array([0.0, 1.0, 0.0, math.inf, 1.0]).reshape(1, 5, 1)
    scale = np.array([0.0, 0.0, 2.0, 2.0, 0.0]).reshape(1, 5, 1)
    ledger = Ledger(kind, sensitivity, scale, Gaussian())
    assert ledger.ratios().ravel().tolist() == [0, math.inf, 0, math.inf, 0]
    assert ledger.mu_per_agent(Messages()).tolist() == [math.inf]
    assert ledger.mu_per_agent(Sum(0)).tolist() == [math.inf]


@pytest.mark.parametrize("name", ["sensitivity", "scale"])
@pytest.mark.parametrize("bad", [math.nan, -1.0])
def test_nan_and_negative_entries_raise_at_questions_only(name, bad):
    ledger = random_ledger(0)
    asked, idle = np.argwhere(ledger.asked)[0], np.argwhere(~ledger.asked)[0]
    with pytest.raises(PrivacyError, match=name):
        changed(ledger, name, tuple(asked), bad)
    spared = changed(ledger, name, tuple(idle), bad)
    assert spared.mu_per_agent(Messages()).tolist() == ledger.mu_per_agent(Messages()).tolist()
    assert spared.mu_per_agent(Sum()).tolist() == ledger.mu_per_agent(Sum()).tolist()
    ledger.same_as(spared)


@pytest.mark.unchecked
def test_malformed_ledgers_are_refused():
    one = np.ones((1, 1, 1))
    zero = np.zeros((1, 1, 1), int)
    for call in (
        lambda: Ledger(zero.astype(float), one, one, Gaussian()),
        lambda: Ledger(zero[0], one[0], one[0], Gaussian()),
        lambda: Ledger(zero, one, np.ones((1, 2, 1)), Gaussian()),
        lambda: Ledger(zero - 2, one, one, Gaussian()),
    ):
        with pytest.raises(InputError):
            call()
    for scale, mechanism in ((one, NoNoise()), (one * math.inf, Gaussian())):
        with pytest.raises(PrivacyError, match="scale"):
            Ledger(zero, one, scale, mechanism)


def test_events_merge_equal_multipliers_and_agree_with_mu():
    ledger = random_ledger(2)
    for agent in range(5):
        events = ledger.events_by_agent()[agent]
        assert len({event for event, _ in events}) == len(events)
        spent = account(events, delta=1e-6, relation=ReplaceOne())
        mu = ledger.mu_per_agent(Messages())[agent]
        assert spent.epsilon == pytest.approx(epsilon_of(1e-6, float(mu)), rel=1e-9)


def test_equal_answers_become_one_event_and_noiseless_ones_are_exact():
    kind = np.zeros((1, 4, 1), int)
    sensitivity = np.array([1.0, 1.0, 0.0, 1.0]).reshape(1, 4, 1)
    scale = np.array([3.0, 3.0, 3.0, 0.0]).reshape(1, 4, 1)
    assert Ledger(kind, sensitivity, scale, Laplace()).events_by_agent()[0] == (
        (LaplaceAnswer(3.0), 2),
        (Exact(), 1),
    )
    assert Ledger(kind, sensitivity, 0 * scale, NoNoise()).events_by_agent()[0] == ((Exact(), 3),)
    (event, count), _ = Ledger(kind, sensitivity, scale, Gaussian()).events_by_agent()[0]
    assert (event, count) == (GaussianAnswer(3.0), 2)


def test_laplace_noise_has_no_mu():
    with pytest.raises(PrivacyError, match="no mu"):
        random_ledger(0, mechanism=Laplace()).mu_per_agent(Messages())


def test_the_observed_ledger_may_differ_by_single_precision_only():
    planned = random_ledger(1)
    planned.same_as(planned)
    planned.same_as(dataclasses.replace(planned, scale=planned.scale.astype(np.float32)))


def test_a_forgotten_answer_raises_and_is_named():
    planned = random_ledger(1)
    agent, turn, question = np.argwhere(planned.asked)[-1]
    observed = changed(planned, "kind", (agent, turn, question), -1)
    where = f"agent {agent}, round {turn}, question {question}"
    with pytest.raises(PrivacyError, match=f"{where}: planned kind .* observed no question"):
        planned.same_as(observed)
    with pytest.raises(PrivacyError, match=f"{where}: planned no question but observed kind"):
        observed.same_as(planned)


@pytest.mark.parametrize("factor", [0.0, 0.5, 1 - 2e-6, 1 + 2e-6, 2.0])
def test_another_scale_raises(factor):
    planned = random_ledger(1)
    where = tuple(np.argwhere(planned.asked)[3])
    observed = changed(planned, "scale", where, planned.scale[where] * factor)
    with pytest.raises(PrivacyError, match="scale"):
        planned.same_as(observed)


def test_another_oracle_mechanism_or_shape_raises():
    planned = random_ledger(1)
    where = tuple(np.argwhere(planned.asked)[0])
    with pytest.raises(PrivacyError, match="kind 7"):
        planned.same_as(changed(planned, "kind", where, 7))
    with pytest.raises(PrivacyError, match="Laplace"):
        planned.same_as(dataclasses.replace(planned, mechanism=Laplace()))
    with pytest.raises(PrivacyError, match="shape"):
        planned.same_as(random_ledger(1, rounds=3))
