"""What is computed of many agents some at a time is what is computed of all at once, to the bit."""

import numpy as np
import pytest
from tests.privacy.certified import certify

from taciturn.kernel.privacy import Adjacency, Gaussian, Ledger, Messages, ReplaceOne
from taciturn.kernel.privacy import composition as composition_module
from taciturn.kernel.privacy import ledger as ledger_module


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
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
    adjacency = Adjacency(ReplaceOne(), "record")
    found = certify(book, delta=1e-5, adjacency=adjacency, observer=Messages())
    assert "step 2^-1 or finer" in found.arithmetic
    assert np.max(book.step) != 0.5


def sampled_ledger(agents):
    """Answers on batches of a tenth, of agents of three different sizes."""
    shape = (agents, 4, 1)
    moves = np.broadcast_to(1.0 + np.arange(agents)[:, None, None] % 3, shape)
    ones = np.ones(shape)
    return Ledger(np.zeros(shape, int), moves, 20 * ones, Gaussian(), rate=0.1 * ones)


def test_the_answers_of_many_agents_are_merged_in_one_pass_and_accounted_for_once(monkeypatch):
    """Planted fault: the ratios of all agents computed anew for each of them."""
    calls, adjacency = {"ratios": 0, "accounts": 0}, Adjacency(ReplaceOne(), "record")

    def counted(name, function):
        def call(*given, **named):
            calls[name] += 1
            return function(*given, **named)

        return call

    monkeypatch.setattr(Ledger, "ratios", counted("ratios", Ledger.ratios))
    account = counted("accounts", composition_module.account)
    monkeypatch.setattr(composition_module, "account", account)
    seen = []
    for agents in (6, 60):
        calls.update(ratios=0, accounts=0)
        composition_module._account.cache_clear()
        book = sampled_ledger(agents)
        certificate = certify(book, delta=1e-5, adjacency=adjacency, observer=Messages())
        assert len(set(certificate.per_agent_epsilon)) == 3
        seen.append(dict(calls))
    assert seen[0] == seen[1] == {"ratios": 1, "accounts": 3}
