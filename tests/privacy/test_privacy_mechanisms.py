import jax.numpy as jnp
import numpy as np
import pytest

from taciturn.audit import log_likelihood_ratio
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.exact import RivalRecord
from taciturn.kernel.noise import Label, Stream
from taciturn.kernel.privacy import (
    Exact,
    Gaussian,
    GaussianAnswer,
    Laplace,
    LaplaceAnswer,
    Messages,
    NoNoise,
)


def test_events_name_the_law_and_the_norm_it_needs():
    assert (Gaussian().event(2.0), Gaussian().norm) == (GaussianAnswer(2.0), "l2")
    assert (Laplace().event(2.0), Laplace().norm) == (LaplaceAnswer(2.0), "l1")
    assert Gaussian().event(0.0) == Laplace().event(0.0) == NoNoise().event(3.0) == Exact()
    for mechanism in (Gaussian(), Laplace()):
        with pytest.raises(InputError):
            mechanism.event(float("nan"))


def test_without_noise_there_are_zeros_and_no_likelihood_ratio():
    assert not np.any(NoNoise().integers(Stream.fresh(), [Label(0, 0, 0)], 4, 1.0))
    record = RivalRecord(jnp.ones((1, 1, 1, 2)), jnp.zeros((1, 1, 1, 2)), jnp.ones((1, 1, 1)))
    with pytest.raises(PrivacyError, match="likelihood ratio"):
        log_likelihood_ratio(record, NoNoise(), Messages())
