"""The ledger: what each observer learns of it, how it is folded, and what differs from it."""

import dataclasses
import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.privacy.certified import RECORD, certify

from taciturn.engine.planning import compact
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
from taciturn.kernel.privacy import composition as composition_module
from taciturn.kernel.privacy import ledger as ledger_module
from taciturn.kernel.privacy.ledger import folded, thin


def random_ledger(seed, agents=5, rounds=4, questions=2, mechanism=None):
    rng = np.random.default_rng(seed)
    shape = (agents, rounds, questions)
    kind = rng.choice([-1, 0, 1], size=shape)
    scale = rng.choice([0.5, 1.0, 3.0], size=shape) * rng.choice([1.0, rng.uniform(1, 2)])
    return Ledger(kind, rng.uniform(0, 1, shape), scale, mechanism or Gaussian())


def of_one(sensitivity, scale, mechanism=None, kind=None):
    """The ledger of one agent that answers once a round."""
    sensitivity, scale = (
        np.array(value, float).reshape(1, -1, 1) for value in (sensitivity, scale)
    )
    kind = np.zeros(scale.shape, int) if kind is None else np.array(kind).reshape(1, -1, 1)
    return Ledger(kind, sensitivity, scale, mechanism or Gaussian())


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
def test_the_sum_observer_matches_every_coalition_tried_by_hand(colluders):
    for seed in range(3):
        ledger = random_ledger(seed)
        truth = [brute_mu(ledger, agent, colluders) for agent in range(5)]
        assert ledger.mu_per_agent(Sum(colluders)) == pytest.approx(truth, rel=1e-12)
        # all others together leave the single message, which is what everybody may see
        assert np.all(ledger.mu_per_agent(Sum(colluders)) <= ledger.mu_per_agent(Sum(4)))
        alone = [brute_mu(ledger, agent, 4) for agent in range(5)]
        assert ledger.mu_per_agent(Messages()) == pytest.approx(alone, rel=1e-12)


def test_one_enormous_scale_does_not_wash_out_the_others():
    scale = np.array([1e12, 1.0, 1.0]).reshape(3, 1, 1)
    ledger = Ledger(np.zeros((3, 1, 1), int), np.ones((3, 1, 1)), scale, Gaussian())
    assert ledger.mu_per_agent(Sum(1))[1] == pytest.approx(1 / math.sqrt(2), rel=1e-12)


def test_ratios_are_zero_or_infinite_where_they_must_be():
    ledger = of_one([0, 1, 0, math.inf, 1], [0, 0, 2, 2, 0], kind=[0, 0, 0, 0, -1])
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
    for observer in (Messages(), Sum()):
        assert spared.mu_per_agent(observer).tolist() == ledger.mu_per_agent(observer).tolist()
    ledger.same_as(spared)


@pytest.mark.unchecked
def test_malformed_ledgers_are_refused():
    one, zero = np.ones((1, 1, 1)), np.zeros((1, 1, 1), int)
    for given_ in (
        (zero.astype(float), one, one), (zero[0], one[0], one[0]),
        (zero, one, np.ones((1, 2, 1))), (zero - 2, one, one),
    ):  # fmt: skip
        with pytest.raises(InputError):
            Ledger(*given_, Gaussian())
    for scale, mechanism in ((one, NoNoise()), (one * math.inf, Gaussian())):
        with pytest.raises(PrivacyError, match="scale"):
            Ledger(zero, one, scale, mechanism)
    with pytest.raises(PrivacyError, match="no mu"):
        random_ledger(0, mechanism=Laplace()).mu_per_agent(Messages())


def test_events_merge_equal_multipliers_and_agree_with_mu():
    ledger = random_ledger(2)
    for agent in range(5):
        events = ledger.events_by_agent()[agent]
        assert len({event for event, _ in events}) == len(events)
        spent = account(events, delta=1e-6, relation=ReplaceOne())
        mu = ledger.mu_per_agent(Messages())[agent]
        assert spent.epsilon == pytest.approx(epsilon_of(1e-6, float(mu)), rel=1e-9)
    moves, scale = [1, 1, 0, 1], [3, 3, 3, 0]
    found = {
        law: of_one(moves, scale, law()).events_by_agent()[0] for law in (Laplace, Gaussian)
    }  # fmt: skip
    assert found[Laplace] == ((LaplaceAnswer(3.0), 2), (Exact(), 1))
    assert found[Gaussian][0] == (GaussianAnswer(3.0), 2)
    assert of_one(moves, [0] * 4, NoNoise()).events_by_agent()[0] == ((Exact(), 3),)


# observed against planned


def test_a_forgotten_answer_raises_and_is_named():
    planned = random_ledger(1)
    planned.same_as(dataclasses.replace(planned, scale=planned.scale.astype(np.float32)))
    agent, turn, question = np.argwhere(planned.asked)[-1]
    observed = changed(planned, "kind", (agent, turn, question), -1)
    where = f"agent {agent}, round {turn}, question {question}"
    with pytest.raises(PrivacyError, match=f"{where}: planned kind .* observed no question"):
        planned.same_as(observed)
    with pytest.raises(PrivacyError, match=f"{where}: planned no question but observed kind"):
        observed.same_as(planned)


@pytest.mark.parametrize("factor", [0.0, 1 - 1e-7, 1 + 2e-6, 2.0])
def test_another_scale_raises(factor):
    planned = random_ledger(1)
    planned.same_as(dataclasses.replace(planned, scale=planned.scale * (1 + 1e-7)))
    where = tuple(np.argwhere(planned.asked)[3])
    observed = changed(planned, "scale", where, planned.scale[where] * factor)
    with pytest.raises(PrivacyError, match="scale"):
        planned.same_as(observed)


def test_another_oracle_mechanism_or_shape_raises():
    planned = random_ledger(1)
    where = tuple(np.argwhere(planned.asked)[0])
    for other, words in (
        (changed(planned, "kind", where, 7), "kind 7"),
        (dataclasses.replace(planned, mechanism=Laplace()), "Laplace"),
        (random_ledger(1, rounds=3), "shape"),
    ):
        with pytest.raises(PrivacyError, match=words):
            planned.same_as(other)


# arrays that repeat most of their entries are kept without the repetitions, and mean the same

SMALL = st.sampled_from([0.0, 0.5, 1.0])
SHAPES = hnp.array_shapes(min_dims=3, max_dims=3, max_side=4)


@given(hnp.arrays(np.float64, SHAPES, elements=SMALL))
def test_folding_forgets_nothing(values):
    different = folded(values)
    np.testing.assert_array_equal(np.broadcast_to(different, values.shape), values)
    assert thin(np.broadcast_to(different, values.shape)).shape == different.shape
    np.testing.assert_array_equal(np.broadcast_to(np.array(compact(values)), values.shape), values)
    same = np.ones((3, 4, 2))
    assert folded(same).size == 1
    same[2, 3, 1] = np.nextafter(1.0, 2.0)
    assert folded(same).shape == same.shape


@given(st.data())
def test_a_ledger_of_views_is_that_of_full_arrays(data):
    shape = data.draw(SHAPES)
    kind = data.draw(hnp.arrays(np.int64, shape, elements=st.sampled_from([-1, 0])))
    few = tuple(data.draw(st.sampled_from([1, side])) for side in shape)
    sensitivity, scale, step = (
        np.broadcast_to(data.draw(hnp.arrays(np.float64, few, elements=of)), shape)
        for of in (SMALL, st.sampled_from([1.0, 2.0**21]), st.sampled_from([0.0, 2.0**-4]))
    )
    views = Ledger(kind, sensitivity, scale, Gaussian(), step=step)
    full = Ledger(kind, sensitivity.copy(), scale.copy(), Gaussian(), step=step.copy())
    full.same_as(views)
    asked = kind >= 0
    largest = np.max(np.where(asked, step, 0.0), axis=0)
    one_lattice = np.all(~asked | (step == largest))  # as in every sum
    for observer in (Messages(), *([Sum(colluders=1)] if one_lattice else [])):
        np.testing.assert_array_equal(views.mu_per_agent(observer), full.mu_per_agent(observer))
    by_hand = np.where((kind >= 0) & (sensitivity > 0), sensitivity + 2 * step, 0.0) / scale
    np.testing.assert_allclose(
        views.mu_per_agent(Messages()), np.sqrt(np.sum(by_hand**2, axis=(1, 2))), rtol=1e-12
    )
    noised = (kind >= 0) & (step > 0)
    assert views.finest() == np.min((scale / np.maximum(step, 1e-9))[noised], initial=np.inf)
    with pytest.raises(ValueError, match="read-only"):
        views.scale[...] = 0.0


PLANNED = """
from taciturn.training import DataFacts, Request, propose
facts = DataFacts(
    name="mine", task="binary", classes=2, columns=100, record_norm=1.0, table=None
)
request = Request(epsilon=1.0, delta=1e-9, rounds=200)
plan = propose(facts, [100 + i % 3 for i in range(100_000)], request).plan()
plan.digest
status = open("/proc/self/status").read()  # ru_maxrss counts what the parent had
print(int(status.partition("VmHWM:")[2].split()[0]) / 2**20)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_hundred_thousand_agents_are_planned_in_a_gibibyte():
    ended = subprocess.run([sys.executable, "-c", PLANNED], capture_output=True, check=True)
    assert float(ended.stdout) < 1.0


# many agents


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_totals_of_some_agents_at_a_time_are_those_of_all_at_once(at_once, monkeypatch):
    """Planted fault: totals of the rounds in another order, which differ in their last bits."""
    monkeypatch.setattr(ledger_module, "_AGENTS_AT_ONCE", at_once)
    ratios = np.random.default_rng(0).random((7, 301, 2))
    book = Ledger(np.zeros(ratios.shape, int), ratios, np.ones(ratios.shape), Gaussian())
    truth = np.sqrt(np.sum(np.square(ratios), axis=(1, 2)))
    assert np.array_equal(book.mu_per_agent(Messages()), truth)
    assert np.any(np.sqrt(np.cumsum(np.square(ratios).reshape(7, -1), axis=1)[:, -1]) != truth)


def test_the_coarsest_step_is_that_of_an_answer():
    """Planted fault: the step of a slot without a question counts, too."""
    kind = np.array([[[0], [-1]], [[0], [0]]])
    step = np.array([[[0.25], [8.0]], [[0.5], [0.125]]])
    book = Ledger(kind, np.ones(kind.shape), np.ones(kind.shape), Gaussian(), step=step)
    found = certify(book, delta=1e-5, adjacency=RECORD, observer=Messages())
    assert "step 2^-1 or finer" in found.arithmetic
    assert np.max(book.step) != 0.5


def test_the_answers_of_many_agents_are_merged_in_one_pass_and_accounted_for_once(monkeypatch):
    """Planted fault: the ratios of all agents computed anew for each of them."""
    calls = {"ratios": 0, "accounts": 0}

    def counted(name, function):
        def call(*given, **named):
            calls[name] += 1
            return function(*given, **named)

        return call

    monkeypatch.setattr(Ledger, "ratios", counted("ratios", Ledger.ratios))
    counting = counted("accounts", composition_module.account)
    monkeypatch.setattr(composition_module, "account", counting)
    for agents in (6, 60):
        calls.update(ratios=0, accounts=0)
        composition_module._account.cache_clear()
        ones = np.ones((agents, 4, 1))  # on batches of a tenth, by agents of three sizes
        moves = np.broadcast_to(1.0 + np.arange(agents)[:, None, None] % 3, ones.shape)
        book = Ledger(np.zeros(ones.shape, int), moves, 20 * ones, Gaussian(), rate=0.1 * ones)
        certificate = certify(book, delta=1e-5, adjacency=RECORD, observer=Messages())
        assert len(set(certificate.per_agent_epsilon)) == 3
        assert calls == {"ratios": 1, "accounts": 3}
