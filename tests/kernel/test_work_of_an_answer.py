"""The work of an answer follows from public facts, so that its time does not tell of others.

A loop whose number of steps is computed, or a branch, would depend on records or on the batch.
"""

import dataclasses
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import ClosedJaxpr, Jaxpr
from tests.attacks.subjects import ORACLES, subject_named

from conftest import packed
from taciturn.kernel.privacy import ReplaceOne
from taciturn.kernel.questions import MinibatchDifference, MinibatchGradient, Oracle, Pair, Point
from taciturn.kernel.records import Shard, for_exact_sums
from taciturn.problems import Squared

ROWS, COLUMNS, RATE = 1_000, 5, 0.01
GATHERED = {
    "few rows": (MinibatchGradient(Squared(), 0.5, RATE), Point),
    "few rows, difference": (
        MinibatchDifference(Squared(), 0.5, RATE, spread=1.0),
        lambda x: Pair(x, x),
    ),
    "few rows, fixed batches": (MinibatchGradient(Squared(), 0.5, RATE, records=ROWS), Point),
}
# a loop whose number of steps is computed, and a branch
UNKNOWN = {"while", "cond"}


def operations(program: Jaxpr | ClosedJaxpr) -> Iterator[str]:
    """Yield the names of all operations of a program, and of the programs in it."""
    for equation in getattr(program, "jaxpr", program).eqns:
        yield equation.primitive.name
        for part in jax.tree.leaves(equation.params, is_leaf=is_program):
            if is_program(part):
                yield from operations(part)


def is_program(part: object) -> bool:
    return isinstance(part, (Jaxpr, ClosedJaxpr))


def test_the_search_for_loops_and_branches_finds_them():
    def doubled_until_large(x):
        return jax.lax.while_loop(lambda y: y < 9, lambda y: 2 * y, x)

    def branched(x):
        return jax.lax.fori_loop(0, 3, lambda _, y: jax.lax.cond(y > 0, jnp.sin, jnp.cos, y), x)

    assert "while" in set(operations(jax.make_jaxpr(jax.jit(doubled_until_large))(1.0)))
    assert "cond" in set(operations(jax.make_jaxpr(branched)(1.0)))


@pytest.fixture(scope="module")
def records() -> Shard:
    draw = np.random.default_rng(0)
    shards = packed(
        draw.standard_normal((ROWS, COLUMNS)), draw.uniform(-1, 1, ROWS), [np.arange(ROWS)]
    )
    slots = max(oracle.sampling.slots(ROWS) for oracle, _ in GATHERED.values())
    shard: Shard = jax.tree.map(lambda leaf: leaf[0], for_exact_sums(shards, slots=slots))
    return shard


def answered(oracle: Oracle, shard: Shard, words, query):
    """Return an answer as a door computes it, but for the noise."""
    count = jnp.asarray(float(ROWS))
    drawn = oracle.sampling.draw(words, ROWS, count) if words.size else None
    return oracle.unnoised(shard, drawn, count, query)


def test_some_batches_are_gathered_and_some_are_not():
    assert all(0 < oracle.sampling.slots(ROWS) < ROWS // 4 for oracle, _ in GATHERED.values())
    assert any(oracle(ROWS).sampling.slots(ROWS) == 0 for oracle in ORACLES.values())


@pytest.mark.parametrize("name", [*ORACLES, *GATHERED])
def test_no_loop_of_an_answer_and_no_branch_depends_on_records_or_batch(name, records):
    if name in GATHERED:
        oracle, ask = GATHERED[name]
        query = ask(jnp.ones(COLUMNS))
    else:
        subject = subject_named(name, ROWS, ReplaceOne())
        ones = np.ones((1, *subject.shape(COLUMNS)))
        oracle, query = subject.oracle, jax.tree.map(lambda x: x[0], subject.ask(ones, ones))
    words = jnp.zeros(oracle.sampling.words(ROWS), jnp.uint64)
    if oracle.assumptions.loss is not None and oracle.assumptions.loss.outputs is not None:
        records = dataclasses.replace(records, targets=jnp.zeros(ROWS, jnp.int32))

    def answer(shard, words):
        return answered(oracle, shard, words, query)

    assert not UNKNOWN & set(operations(jax.make_jaxpr(answer)(records, words)))


def test_a_batch_of_any_size_is_summed_whole(records):
    oracle, ask = GATHERED["few rows"]
    query, expected = ask(jnp.linspace(-1.0, 1.0, COLUMNS)), RATE * ROWS

    @jax.jit
    def both(key):
        words = jax.random.bits(key, (oracle.sampling.words(ROWS),), jnp.uint64)
        drawn = oracle.sampling.draw(words, ROWS, jnp.asarray(float(ROWS)))
        # the same records, where they stand
        mask = jnp.zeros(ROWS).at[drawn.places].max(drawn.taken)
        plain = (records.features @ query.x - records.targets) * 1.0
        term = jnp.clip(plain, -0.5, 0.5) * mask
        return answered(oracle, records, words, query), term @ records.features / expected, mask

    answers, plain, masks = jax.vmap(both)(jax.random.split(jax.random.key(0), 300))
    sizes = np.sum(masks, axis=1)
    assert sizes.min() < expected / 2
    assert sizes.max() > 1.5 * expected
    np.testing.assert_allclose(answers, plain, rtol=0, atol=1e-5)
