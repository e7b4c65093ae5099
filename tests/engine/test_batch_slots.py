"""A batch says how many of its slots are worth reading, and has as many as are read at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taciturn.oracles import Drawn, MinibatchGradient, Point, PoissonBatches
from taciturn.problems import Squared, for_exact_sums, pack

ROWS, COLUMNS, RATE = 1_000, 5, 0.01
SAMPLING = PoissonBatches(RATE)


def drawn(seed):
    words = jax.random.bits(jax.random.key(seed), (SAMPLING.words(ROWS),), jnp.uint64)
    return SAMPLING.draw(words, ROWS, jnp.asarray(float(ROWS)))


def test_the_slots_of_a_batch_are_known_once_it_is_drawn():
    size = SAMPLING.piece_size(ROWS, SAMPLING.slots(ROWS))
    assert SAMPLING.slots(ROWS) % size  # else nothing is filled up
    for seed in range(30):
        batch = drawn(seed)
        taken = np.asarray(batch.taken)
        assert taken.shape == batch.places.shape
        assert len(taken) % size == 0
        last = np.flatnonzero(taken)
        assert int(batch.used) == (last[-1] + 1 if last.size else 0)
        assert not taken[SAMPLING.slots(ROWS) :].any()


@pytest.fixture(scope="module")
def asked():
    draw = np.random.default_rng(0)
    shards = pack(
        draw.standard_normal((ROWS, COLUMNS)), draw.uniform(-1, 1, ROWS), [np.arange(ROWS)],
        record_norm=1.0, precision="float64", enforce="clip",
    )  # fmt: skip
    oracle = MinibatchGradient(Squared(), 0.5, RATE)
    shard = for_exact_sums(shards, slots=SAMPLING.slots(ROWS), narrow=True)
    one = jax.tree.map(lambda leaf: leaf[0], shard)
    point = Point(jnp.asarray(draw.standard_normal(COLUMNS)))
    answer = jax.jit(lambda batch: oracle.unnoised(one, batch, jnp.asarray(float(ROWS)), point))
    return lambda batch: np.asarray(answer(batch))


def test_what_is_not_read_of_a_batch_is_not_in_it(asked):
    for seed in range(5):
        batch = drawn(seed)
        everything = Drawn(batch.places, batch.taken)
        np.testing.assert_array_equal(asked(batch), asked(everything))
        room = SAMPLING.slots(ROWS)  # as many slots as are drawn, not filled up
        bare = Drawn(batch.places[:room], batch.taken[:room])
        np.testing.assert_array_equal(asked(batch), asked(bare))


def test_a_batch_that_says_it_ends_too_early_is_seen_in_its_answer(asked):
    size = SAMPLING.piece_size(ROWS, SAMPLING.slots(ROWS))
    long = next(batch for batch in map(drawn, range(200)) if int(batch.used) > size)
    short = long._replace(used=jnp.asarray(size, jnp.int32))
    assert np.any(asked(short) != asked(long))
