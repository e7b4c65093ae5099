"""Fixed-size batches: the Renyi accountant called independently, Monte Carlo, and refusals."""

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm

from taciturn.errors import InputError
from taciturn.kernel.privacy import (
    FixedSize,
    GaussianAnswer,
    LaplaceAnswer,
    ReplaceOne,
    Sampled,
    ZeroOut,
    account,
)


def spent(*events, delta=1e-5, relation=None):
    return account(events, delta=delta, relation=relation or ReplaceOne()).epsilon


def test_the_total_is_dp_accountings_own_for_replace_one():
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    inner = dp_event.GaussianDpEvent(2.0)
    accountant.compose(dp_event.SampledWithoutReplacementDpEvent(1000, 20, inner), 500)
    accountant.compose(dp_event.GaussianDpEvent(30.0), 3)
    ours = spent((FixedSize(GaussianAnswer(2.0), 20, 1000), 500), (GaussianAnswer(30.0), 3))
    assert ours == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-12)


def test_the_bound_holds_for_the_exact_divergence_of_one_answer():
    """One record of n = 10, b = 3: a mixture of N(0, s) and N(+-1/2, s) in units of Delta."""
    multiplier, share, delta = 0.7, 0.3, 1e-3
    epsilon = spent((FixedSize(GaussianAnswer(multiplier), 3, 10), 1), delta=delta)
    grid = np.linspace(-12, 12, 200_001)
    first, second = (
        (1 - share) * norm.pdf(grid, 0, multiplier) + share * norm.pdf(grid, side, multiplier)
        for side in (0.5, -0.5)
    )
    excess = np.maximum(first - np.exp(epsilon) * second, 0)
    assert np.sum(excess) * (grid[1] - grid[0]) <= delta


def test_sampling_lowers_the_cost_and_all_records_cost_the_gaussian_value():
    plain = spent((GaussianAnswer(5.0), 10))
    assert spent((FixedSize(GaussianAnswer(5.0), 10, 1000), 10)) < 0.3 * plain
    assert spent((FixedSize(GaussianAnswer(5.0), 1000, 1000), 10)) == plain
    more = [spent((FixedSize(GaussianAnswer(5.0), b, 1000), 10)) for b in (10, 100, 500)]
    assert more == sorted(more)


@pytest.mark.unchecked
def test_what_has_no_accountant_is_refused():
    event = FixedSize(GaussianAnswer(5.0), 10, 1000)
    with pytest.raises(InputError, match="replace_one only"):
        spent((event, 1), relation=ZeroOut())
    with pytest.raises(InputError, match="one kind of sampling"):
        spent((event, 1), (Sampled(GaussianAnswer(5.0), 0.1), 1))
    with pytest.raises(InputError, match="larger than the 5 records"):
        FixedSize(GaussianAnswer(1.0), 10, 5)
    with pytest.raises(InputError, match="must be GaussianAnswer"):
        FixedSize(LaplaceAnswer(1.0), 1, 5)
    with pytest.raises(InputError, match="multiplier is nan"):
        FixedSize(GaussianAnswer(float("nan")), 1, 5)
