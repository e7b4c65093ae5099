import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taciturn.errors import InputError
from taciturn.kernel.records import Draw, Persons, random_partition
from taciturn.problems import contiguous_partition, dirichlet_partition, partition, partition_by

SIZES = st.integers(1, 60).flatmap(
    lambda agents: st.tuples(st.integers(agents, 200), st.just(agents))
)
SEEDS = st.integers(0, 2**32 - 1)


def assert_covers(parts, rows):
    assert all(part.size for part in parts)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(rows))


@settings(deadline=None, max_examples=60)
@given(SIZES, SEEDS)
def test_random_and_contiguous_parts_cover_every_row_once_evenly(size, seed):
    rows, agents = size
    for parts in (random_partition(rows, agents, seed=seed), contiguous_partition(rows, agents)):
        assert len(parts) == agents
        assert_covers(parts, rows)
        lengths = [part.size for part in parts]
        assert max(lengths) - min(lengths) <= 1


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(-3, 6), min_size=1, max_size=80))
def test_one_part_per_value_in_sorted_order(values):
    values = np.array(values)
    parts = partition_by(values)
    assert_covers(parts, len(values))
    assert [set(values[part]) for part in parts] == [{value} for value in sorted(set(values))]


@settings(deadline=None, max_examples=60)
@given(SIZES, SEEDS, st.floats(1e-3, 100))
def test_label_skewed_parts_cover_every_row_once_and_leave_nobody_empty(size, seed, alpha):
    rows, agents = size
    labels = np.random.default_rng(seed).integers(0, 4, rows)
    parts = dirichlet_partition(labels, agents, alpha=alpha, seed=seed)
    assert len(parts) == agents
    assert_covers(parts, rows)


def skew(alpha):
    labels = np.repeat(np.arange(5), 400)
    parts = dirichlet_partition(labels, 10, alpha=alpha, seed=0)
    shares = np.array([np.bincount(labels[part], minlength=5) / part.size for part in parts])
    return shares.max(axis=1).mean()


def test_small_alpha_gives_few_labels_and_large_alpha_all():
    assert skew(0.05) > 0.75
    assert skew(1000.0) < 0.25


def test_the_dirichlet_shares_have_the_right_mean_and_variance():
    agents, alpha = 4, 0.5
    labels = np.zeros(1000, int)
    shares = np.array(
        [
            [
                part.size / 1000
                for part in dirichlet_partition(labels, agents, alpha=alpha, seed=seed)
            ]
            for seed in range(1500)
        ]
    )
    variance = (1 / 4) * (3 / 4) / (agents * alpha + 1)
    np.testing.assert_allclose(shares.mean(0), 0.25, atol=5 * np.sqrt(variance / 1500))
    np.testing.assert_allclose(shares.var(0), variance, rtol=0.2)


def test_agents_without_a_row_take_the_first_one_of_the_richest_in_turn():
    """Against the definition, which counts all rows anew for each of them."""

    def defined(owner, agents):
        owner = owner.copy()
        for agent in np.flatnonzero(np.bincount(owner, minlength=agents) == 0):
            richest = np.bincount(owner, minlength=agents).argmax()
            owner[np.flatnonzero(owner == richest)[0]] = agent
        return owner

    draw = np.random.default_rng(0)
    for agents in (2, 5, 12, 30):
        for _ in range(20):
            owner = draw.integers(0, max(1, agents // 3), int(draw.integers(agents, 4 * agents)))
            assert np.array_equal(partition._without_empty(owner, agents), defined(owner, agents))


def test_each_agent_has_the_rows_of_its_persons_in_order():
    """Against the definition, which looks through all rows for each agent."""
    numbers = np.random.default_rng(0).integers(0, 40, 200)
    parts = Persons(numbers, 2).deal(7, Draw(seed=1))
    whose = [set(numbers[part].tolist()) for part in parts]
    assert sum(map(len, whose)) == len(np.unique(numbers))
    for part, persons in zip(parts, whose, strict=True):
        assert part.tolist() == np.flatnonzero(np.isin(numbers, list(persons))).tolist()


def test_a_seed_gives_one_partition_and_another_seed_another():
    first, again, other = (random_partition(50, 3, seed=seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    "build",
    [
        lambda agents: random_partition(3, agents, seed=0),
        lambda agents: contiguous_partition(3, agents),
        lambda agents: dirichlet_partition(np.zeros(3), agents, alpha=1.0, seed=0),
    ],
)
def test_impossible_numbers_of_agents_are_refused(build):
    with pytest.raises(InputError, match="5 agents but 3 rows; ask for at most 3 agents"):
        build(5)
    with pytest.raises(InputError, match="at least 1"):
        build(0)


def test_an_impossible_alpha_or_empty_values_are_refused():
    with pytest.raises(InputError, match="alpha"):
        dirichlet_partition(np.zeros(3), 2, alpha=0.0, seed=0)
    with pytest.raises(InputError, match="one value per row"):
        partition_by(np.zeros((0,)))
