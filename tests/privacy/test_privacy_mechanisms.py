import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from taciturn.errors import InputError, PrivacyError
from taciturn.privacy import (
    Exact,
    Gaussian,
    GaussianAnswer,
    Laplace,
    LaplaceAnswer,
    NoNoise,
)

KEY = jax.random.key(7)
PAIRS = [(Gaussian(), stats.norm), (Laplace(), stats.laplace)]


@pytest.mark.parametrize(("mechanism", "law"), PAIRS)
def test_samples_follow_their_law(mechanism, law):
    noise = np.asarray(mechanism.sample(KEY, jnp.zeros((200, 100)), 2.5)).ravel()
    assert stats.kstest(noise, law(scale=2.5).cdf).pvalue > 1e-3
    # planted fault: halved noise must not pass the same test
    assert stats.kstest(noise / 2, law(scale=2.5).cdf).pvalue < 1e-12


@pytest.mark.parametrize(("mechanism", "law"), PAIRS)
def test_log_ratio_is_the_difference_of_log_densities(mechanism, law):
    rng = np.random.default_rng(0)
    one, two = rng.standard_normal((2, 4, 3))
    truth = np.sum(law.logpdf(one, scale=0.7) - law.logpdf(two, scale=0.7))
    found = mechanism.log_ratio(jnp.asarray(one), jnp.asarray(two), 0.7)
    assert float(found) == pytest.approx(truth, rel=1e-12)
    assert found.shape == ()


@pytest.mark.parametrize("mechanism", [Gaussian(), Laplace(), NoNoise()])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_noise_keeps_shape_and_dtype_under_jit_and_vmap(mechanism, dtype):
    like = jnp.zeros((3, 2), dtype)
    keys = jax.random.split(KEY, 5)

    @jax.jit
    def draw(mechanism, keys, scales):
        return jax.vmap(lambda key, scale: mechanism.sample(key, like, scale))(keys, scales)

    noise = draw(mechanism, keys, jnp.arange(1.0, 6.0, dtype=jnp.float64))
    assert noise.shape == (5, 3, 2)
    assert noise.dtype == dtype
    assert mechanism.sample(KEY, like, np.float64(2.0)).dtype == dtype
    assert jax.tree_util.tree_leaves(mechanism) == []


@pytest.mark.parametrize("mechanism", [Gaussian(), Laplace()])
def test_scale_multiplies_the_noise_of_a_key(mechanism):
    like = jnp.zeros(50)
    one, three = (mechanism.sample(KEY, like, scale) for scale in (1.0, 3.0))
    assert np.allclose(three, 3 * one, rtol=1e-14)


def test_events_name_the_law_and_the_norm_it_needs():
    assert (Gaussian().event(2.0), Gaussian().norm) == (GaussianAnswer(2.0), "l2")
    assert (Laplace().event(2.0), Laplace().norm) == (LaplaceAnswer(2.0), "l1")
    assert Gaussian().event(0.0) == Laplace().event(0.0) == NoNoise().event(3.0) == Exact()
    for mechanism in (Gaussian(), Laplace()):
        with pytest.raises(InputError):
            mechanism.event(float("nan"))


def test_without_noise_there_are_zeros_and_no_likelihood_ratio():
    assert not np.any(NoNoise().sample(KEY, jnp.ones(4), 1.0))
    with pytest.raises(PrivacyError, match="likelihood ratio"):
        NoNoise().log_ratio(jnp.ones(2), jnp.zeros(2), 1.0)
