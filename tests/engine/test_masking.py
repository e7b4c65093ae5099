"""Masks on request: what travels looks uniform, and no number that is told changes."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

from conftest import make_plan, make_shards, make_terms
from tacit.engine import plan, run
from tacit.engine.masking import Masking
from tacit.errors import InputError
from tacit.network import ring, spanning_tree
from tacit.privacy import Messages, Sum

KEEP = frozenset({"messages", "publics"})


def both(runtime, seed=4, network=None):
    """A run as it is, and under masks."""
    shards = make_shards(agents=3)
    made = make_plan("noisy-gradient", shards, terms=make_terms(observer=Sum(1)))
    if network is not None:
        algorithm, oracles = made.program.algorithm, made.program.oracles
        made = plan(
            made.spec, algorithm, oracles, made.terms,
            rounds=made.rounds, precision=made.precision, network=network,
        )  # fmt: skip
    plain, masked = (
        run(made, shards, runtime=runtime, seed=seed, keep=KEEP, masks=masks)
        for masks in (False, True)
    )
    return made, plain, masked


def looks_uniform(words):
    """Whether the bytes of words pass a chi-square test."""
    counts = np.bincount(np.ascontiguousarray(words).view(np.uint8).ravel(), minlength=256)
    return chisquare(counts).pvalue > 1e-6


def test_under_masks_the_model_is_the_same_to_the_bit_and_every_message_another():
    made, plain, masked = both("simulate")
    np.testing.assert_array_equal(masked.model, plain.model)
    np.testing.assert_array_equal(masked.trace.publics, plain.trace.publics)
    before, after = (np.asarray(one.trace.messages) for one in (plain, masked))
    np.testing.assert_array_equal(before.sum(axis=1), after.sum(axis=1))
    assert np.all(before != after)
    assert masked.certificate == plain.certificate
    assert masked.plan is made


@pytest.mark.slow
@pytest.mark.parametrize("network", [None, spanning_tree(ring(3))])
@pytest.mark.parametrize("runtime", ["simulate", "serial"])
def test_in_every_runtime_and_network_masks_change_nothing_but_the_traffic(runtime, network):
    _, plain, masked = both(runtime, network=network)
    np.testing.assert_array_equal(masked.model, plain.model)
    assert np.all(np.asarray(plain.trace.messages)[:, 1] != np.asarray(masked.trace.messages)[:, 1])


@pytest.mark.slow
def test_a_run_without_a_seed_takes_masks():
    _, _, masked = both("simulate", seed=None)
    assert not masked.certificate.reproduction
    assert looks_uniform(np.asarray(masked.trace.messages)[:, 0])


def test_words_look_uniform_alone_and_their_sum_is_that_of_the_numbers():
    numbers = jnp.arange(3 * 4000).reshape(3, 40, 100) - 5000
    masking = Masking(3)
    first, second = masking(numbers), masking(numbers)
    for words in (first, second):
        np.testing.assert_array_equal(words.sum(axis=0), numbers.sum(axis=0))
        assert all(looks_uniform(own) for own in words)
        assert looks_uniform(words[0] + words[1])  # all but one of them
    assert looks_uniform(first[0] - second[0])  # no stream is used twice


def test_planted_numbers_without_masks_do_not_look_uniform():
    assert not looks_uniform(np.arange(4000) - 2000)


def test_masks_are_refused_where_every_message_may_be_read():
    shards = make_shards(agents=3)
    made = make_plan("noisy-gradient", shards, terms=make_terms(observer=Messages()))
    with pytest.raises(InputError, match="leave the masks out"):
        run(made, shards, runtime="simulate", seed=1, masks=True)
