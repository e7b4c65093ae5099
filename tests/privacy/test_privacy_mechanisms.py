import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from taciturn.audit.epsilon import log_ratio
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.noise import Label, Stream
from taciturn.kernel.privacy import (
    Exact,
    Gaussian,
    GaussianAnswer,
    Laplace,
    LaplaceAnswer,
    NoNoise,
)

PAIRS = [(Gaussian(), stats.norm), (Laplace(), stats.laplace)]


@pytest.mark.parametrize(("mechanism", "law"), PAIRS)
def test_log_ratio_is_the_difference_of_log_densities(mechanism, law):
    rng = np.random.default_rng(0)
    one, two = rng.standard_normal((2, 4, 3))
    truth = np.sum(law.logpdf(one, scale=0.7) - law.logpdf(two, scale=0.7))
    found = log_ratio(mechanism, jnp.asarray(one), jnp.asarray(two), 0.7)
    assert float(found) == pytest.approx(truth, rel=1e-12)
    assert found.shape == ()


def test_events_name_the_law_and_the_norm_it_needs():
    assert (Gaussian().event(2.0), Gaussian().norm) == (GaussianAnswer(2.0), "l2")
    assert (Laplace().event(2.0), Laplace().norm) == (LaplaceAnswer(2.0), "l1")
    assert Gaussian().event(0.0) == Laplace().event(0.0) == NoNoise().event(3.0) == Exact()
    for mechanism in (Gaussian(), Laplace()):
        with pytest.raises(InputError):
            mechanism.event(float("nan"))


def test_without_noise_there_are_zeros_and_no_likelihood_ratio():
    assert not np.any(NoNoise().integers(Stream.fresh(), [Label(0, 0, 0)], 4, 1.0))
    with pytest.raises(PrivacyError, match="likelihood ratio"):
        log_ratio(NoNoise(), jnp.ones(2), jnp.zeros(2), 1.0)
