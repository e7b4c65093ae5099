"""What is computed of many agents some at a time is what is computed of all at once, to the bit."""

import numpy as np
import pytest

from tacit.privacy import Gaussian, Ledger, Messages
from tacit.privacy import ledger as ledger_module


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
    assert book.coarsest() == 0.5 != np.max(book.steps)
