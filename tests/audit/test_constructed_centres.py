"""Rows, centres and queries made on purpose: no answer around a centre moves beyond its bound."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from taciturn.engine import records_for_door
from taciturn.kernel.questions import Around, Centre, Point, ProximalStep, Recentred
from taciturn.kernel.records import pack
from taciturn.training import DataFacts, Request, propose

NORM, COLUMNS, COUNTS = 1.7, 5, (4, 1, 9)
FACTS = DataFacts(name="m", task="binary", classes=2, columns=COLUMNS, record_norm=NORM, table=None)
FIRST, SLANTED = np.eye(COLUMNS)[0] * NORM, np.array([0.6, 0.8, 0, 0, 0]) * NORM
EVEN = np.full(COLUMNS, NORM / np.sqrt(COLUMNS))
NEAR = NORM / 64  # rows nearer to the centre than this are shrunk
# at, beside and opposite the centres below; denormal; far beyond the norm before they are clipped
ROWS = [
    FIRST, -FIRST, SLANTED, SLANTED * (1 - 2**-20), 0 * FIRST, FIRST * (1 - 2**-23),
    np.full(COLUMNS, 5e-324), np.full(COLUMNS, 1e-40), FIRST * 1e30, SLANTED * -5e299, EVEN,
    NEAR * np.eye(COLUMNS)[0], NEAR * (1 - 2**-24) * np.eye(COLUMNS)[1],
]  # fmt: skip
CENTRES = [
    0 * FIRST, FIRST, SLANTED, -SLANTED, FIRST * (1 - 2**-23), np.full(COLUMNS, 5e-324),
    np.full(COLUMNS, 1e300), np.full(COLUMNS, np.nan), np.array([np.inf, -np.inf, 0, 0, 1]), EVEN,
    SLANTED - NEAR * np.eye(COLUMNS)[2],
]  # fmt: skip
WEIGHTS = [
    np.zeros(COLUMNS + 1), np.append(FIRST * 1e6, 0), np.append(-FIRST * 1e6, 1e6),
    np.append(SLANTED, 3.0), np.full(COLUMNS + 1, np.nan), np.full(COLUMNS + 1, 1e300),
    np.append(0 * FIRST, np.inf), np.append(np.full(COLUMNS, 1e38), -1e38),
]  # fmt: skip


def planned(algorithm, **asked):
    request = Request(
        epsilon=2.0, delta=1e-3, algorithm=algorithm, centre=True, rounds=5, clip=0.8, **asked
    )
    return propose(FACTS, COUNTS, request).plan()


def shards(plan, agent, row, target, hidden):
    """Shards of all agents with this row as the first of one agent, which may be masked."""
    draw = np.random.default_rng(0)
    x = draw.standard_normal((sum(COUNTS), COLUMNS + 1)) * 0.3
    x[:, -1] = 0
    y = np.sign(draw.standard_normal(sum(COUNTS)))
    owners = np.split(np.arange(sum(COUNTS)), np.cumsum(COUNTS)[:-1])
    x[owners[agent][0], :COLUMNS], y[owners[agent][0]] = row, target
    packed = pack(x, y, owners, record_norm=NORM, precision=plan.precision)
    one = jax.tree.map(lambda leaf: leaf[agent], records_for_door(plan, packed))
    if hidden:
        mask = one.shard.mask.at[0].set(0)
        one = one._replace(shard=dataclasses.replace(one.shard, mask=mask))
    return one


def moved(plan, agent, number, relation):
    """The furthest that one record moves the answers to a question, over its bound."""
    oracle = plan.program.oracles[number]
    inner = oracle.inner if isinstance(oracle, Recentred) else oracle
    kind = Centre if isinstance(inner, ProximalStep) else Point
    queries = [
        Around(kind(jnp.asarray(w)), jnp.asarray(np.append(c, 0))) for w in WEIGHTS for c in CENTRES
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *queries)
    ask = jax.jit(jax.vmap(oracle.exact, in_axes=(None, None, 0)))

    def answers(row, target, hidden=False):
        one = shards(plan, agent, row, target, hidden)
        return np.asarray(ask(one.shard, one.records, stacked), np.float64)

    seen = np.array([answers(row, target) for row in ROWS for target in (-1.0, 1.0)])
    without = np.array([answers(ROWS[0], 1.0, True), answers(ROWS[8], -1.0, True)])
    assert np.isfinite(seen).all()
    assert np.array_equal(without[0], without[1])
    others = without[:1] if relation == "zero_out" else seen
    change = (seen[:, None] - others[None]).reshape(len(seen), len(others), len(queries), -1)
    bound = np.broadcast_to(plan.bounds[number].value, (len(COUNTS), 1, 1))[agent].item()
    return float(np.max(np.linalg.norm(change, axis=-1))) / bound


@pytest.mark.parametrize(
    ("algorithm", "relation", "precision"),
    [
        ("noisy-gradient", "replace_one", "float32"),
        *(
            pytest.param(name, relation, precision, marks=pytest.mark.slow)
            for name, relation, precision in (
                ("noisy-gradient", "zero_out", "float64"), ("dp-admm", "replace_one", "float32"),
                ("linearised-admm", "zero_out", "float32"), ("pvp", "replace_one", "float32"),
                ("dp-sgd", "replace_one", "float32"),
            )
        ),
    ],
)  # fmt: skip
def test_no_constructed_row_moves_an_answer_around_a_centre_beyond_its_bound(
    algorithm, relation, precision
):
    plan = planned(algorithm, relation=relation, precision=precision)
    for number in range(len(plan.program.oracles)):
        reached = max(moved(plan, agent, number, relation) for agent in (0, 1))
        assert reached <= 1
        assert reached > (0.9 if relation == "replace_one" else 0.45)


def test_the_first_round_has_its_public_share_of_the_budget():
    ratios = planned("noisy-gradient").ledger.ratios() ** 2
    assert ratios[:, 0].sum(axis=-1) / ratios.sum(axis=(1, 2)) == pytest.approx(0.05, rel=1e-6)
