"""The discrete laws are drawn exactly: against their probabilities, and against more digits."""

import itertools
import math

import numpy as np
import opendp.prelude as opendp
import pytest
from mpmath import mp, mpf
from scipy import special, stats

from taciturn.errors import InputError
from taciturn.kernel.noise import Label, Stream, discrete_gaussian, discrete_laplace
from taciturn.kernel.noise import gaussian as gaussian_module
from taciturn.kernel.noise import laplace as laplace_module
from taciturn.kernel.noise.gaussian import Uniform
from taciturn.kernel.noise.stream import Use

KEY = bytes(range(32))
HERE = [Label(0, 0, 0)]
# a test with a fixed key either always passes or never does; its level is that of the first look
LEVEL = 1e-4


def draws(law, scale, count, key=KEY):
    return law(Stream(key), HERE, count, scale)[0]


def exact_gaussian(values, scale):
    weights = np.exp(-(values**2) / (2 * scale**2))
    return weights / weights.sum()


def exact_laplace(values, scale):
    weights = np.exp(-np.abs(values) / scale)
    return weights / weights.sum()


def p_value(drawn, probabilities, values):
    """Chi-square, cells of fewer than ten expected draws as one."""
    expected = probabilities * len(drawn)
    observed = np.array([np.sum(drawn == value) for value in values])
    common = expected >= 10
    observed = np.append(observed[common], len(drawn) - observed[common].sum())
    expected = np.append(expected[common], len(drawn) - expected[common].sum())
    return stats.chisquare(observed, expected).pvalue


LAWS = [(discrete_gaussian, exact_gaussian), (discrete_laplace, exact_laplace)]


@pytest.mark.parametrize(("law", "exact"), LAWS)
@pytest.mark.parametrize("scale", [1.0, 1.7, 2.0, 4.0, 8.0])
def test_small_scales_follow_the_exact_probabilities(law, exact, scale):
    values = np.arange(-400, 401)
    drawn = draws(law, scale, 2_500)
    assert p_value(drawn, exact(values, scale), values) > LEVEL


def test_a_rounded_gaussian_is_not_taken_for_a_discrete_one():
    rounded = np.rint(np.random.default_rng(0).standard_normal(300_000)).astype(int)
    values = np.arange(-400, 401)
    assert p_value(rounded, exact_gaussian(values, 1.0), values) < LEVEL


@pytest.mark.parametrize("scale", [2.0**24, 1.3 * 2.0**27])
def test_large_scales_have_the_moments_and_tails_of_the_continuous_law(scale):
    drawn = draws(discrete_gaussian, scale, 400_000) / scale
    assert stats.kstest(drawn, "norm").pvalue > LEVEL
    for size in (2.0, 3.0, 4.0):
        beyond, expected = np.sum(np.abs(drawn) > size), 2 * stats.norm.sf(size) * len(drawn)
        assert abs(beyond - expected) < 5 * math.sqrt(expected)
    twice = draws(discrete_laplace, scale, 400_000) / scale
    assert stats.kstest(twice, "laplace").pvalue > LEVEL


@pytest.mark.slow
def test_a_hundred_million_draws_have_the_law_in_moments_cells_and_tails():
    """Cells of equal probability, the first moments, and more than five standard deviations."""
    scale, cells, size, runs = 2.0**24, 4096, 1_000_000, 100
    edges = np.rint(special.ndtri(np.arange(1, cells) / cells) * scale)
    masses = np.diff(special.ndtr((edges + 0.5) / scale), prepend=0.0, append=1.0)
    counts, moments, far = np.zeros(cells), np.zeros(4), 0
    for run in range(runs):
        drawn = discrete_gaussian(Stream(KEY), [Label(run, 1, 0)], size, scale)[0]
        counts += np.bincount(np.searchsorted(edges, drawn), minlength=cells)
        whitened = drawn / scale
        moments += [np.sum(whitened**power) for power in range(1, 5)]
        far += int(np.sum(np.abs(whitened) > 5.3))
    total = size * runs
    assert stats.chisquare(counts, masses * total).pvalue > LEVEL
    for power, (mean, variance) in enumerate([(0, 1), (1, 2), (0, 15), (3, 96)]):
        assert abs(moments[power] - total * mean) < 5 * math.sqrt(total * variance)
    expected = 2 * stats.norm.sf(5.3) * total
    assert stats.poisson.sf(far - 1, expected) > LEVEL
    assert stats.poisson.cdf(far, expected) > LEVEL


def test_the_last_bits_at_a_large_scale_are_uniform():
    drawn = draws(discrete_gaussian, 2.0**24, 200_000)
    assert stats.chisquare(np.bincount(drawn % 256, minlength=256)).pvalue > LEVEL


@pytest.mark.parametrize("z", [1e-9, 1e-4, 0.5, 1.0, 2.5, 3.0, 5.0, 7.9])
def test_the_quantile_function_is_as_exact_as_the_sampler_assumes(z):
    around = z * np.linspace(0.999, 1.001, 40)
    for tail in special.ndtr(-around):
        with mp.workprec(200):
            guess = mpf(special.ndtri(tail))
            density = mp.exp(-(guess**2) / 2) / mp.sqrt(2 * mp.pi)
            gap = mp.erfc(-guess / mp.sqrt(2)) / 2 - mpf(tail)
            error = abs(float(gap / density))
        assert error < gaussian_module._NDTRI / 16 * (1 + z)


# a word that decides to keep a draw, and has the digits of the middle
KEPT = (9 << 32) + 2**31


def test_where_double_precision_decides_does_not_depend_on_how_large_the_noise_is():
    """More digits take a hundred times as long: an observer of the time would know the size."""
    scale, count, draw = 2.0**24, 2_000, np.random.default_rng(0)
    for bits in range(18, 63):  # the largest of them lie 7.8 standard deviations out
        tails = draw.integers(2 ** (bits - 1), 2**bits, count, np.uint64)
        words = np.stack([tails << np.uint64(1), draw.integers(0, 2**64, count, np.uint64)], -1)
        out = np.zeros((1, count), np.int64)
        assert np.mean(gaussian_module._quick(words[None], scale, out=out)) < 1e-3
        digits = draw.integers(0, 2**32, count, np.uint32)
        assert np.mean(laplace_module._quick(tails[None], digits[None], scale)[1]) < 1e-3


def words_that_give(magnitudes, scale):
    """First digits K so that s Q^-1(K / 2^96) is as near to n + 1/2 as any, on both sides."""
    for n in magnitudes:
        with mp.workprec(300):
            tail = mp.erfc((mpf(n) + mpf(1) / 2) / mpf(scale) / mp.sqrt(2)) / 2
            nearest = int(mp.floor(mp.ldexp(tail, 96)))
        for k in (nearest - 1, nearest, nearest + 1):
            yield n, k, nearest


def pair_of(k, decision=9):
    """The two words of a draw whose tail begins with the digits of k."""
    return (k >> 32) << 1, (decision << 32) + k % 2**32


@pytest.mark.parametrize("scale", [2.0**24, 1.37 * 2.0**28])
def test_a_word_at_the_edge_of_two_integers_is_decided_by_further_digits(scale):
    sizes = [0, 1, 7, int(scale), int(3.3 * scale)]
    for n, k, nearest in words_that_give(sizes, scale):
        words = np.array([[pair_of(k)]], np.uint64)
        undecided = gaussian_module._quick(words, scale, out=np.zeros((1, 1), np.int64))
        assert undecided[0, 0]
        if k != nearest:
            further = gaussian_module._exact(*pair_of(k), scale, itertools.repeat(0))
            assert further == (n + 1 if k < nearest else n)


def test_the_edge_itself_is_shared_in_proportion():
    scale, n = 2.0**24, 5
    with mp.workprec(300):
        tail = mp.ldexp(mp.erfc((mpf(n) + mpf(1) / 2) / mpf(scale) / mp.sqrt(2)) / 2, 96)
        k, rest = int(mp.floor(tail)), float(tail - mp.floor(tail))
    further = [int(x * 2**64) for x in (rest - 1e-9, rest + 1e-9)]
    sizes = [gaussian_module._exact(*pair_of(k), scale, itertools.repeat(x)) for x in further]
    assert sizes == [n + 1, n]


def test_what_double_precision_decides_more_digits_decide_alike():
    scale, count = 2.0**25, 300
    words = Stream(KEY).words(HERE, Use.NOISE, count)
    second = np.full_like(words, KEPT)
    out = np.zeros((1, count), np.int64)
    gaussian_module._quick(np.stack([words, second], -1), scale, out=out)
    slow = [gaussian_module._exact(int(w), KEPT, scale, itertools.repeat(0)) for w in words[0]]
    np.testing.assert_array_equal(out[0], slow)
    quick, _ = laplace_module._quick(words, np.full((1, count), 2**31, np.uint32), scale)
    numbers = [(int(w) << 32) + 2**31 for w in words[0]]
    slow = [laplace_module._exact(Uniform(n, 96, itertools.repeat(0)), scale) for n in numbers]
    np.testing.assert_array_equal(quick[0], slow)


def test_tails_beyond_the_first_digits_are_reached():
    deep = gaussian_module._exact(*pair_of(0), 2.0**24, itertools.repeat(2**63))
    assert abs(deep - 2.0**24 * -special.ndtri(2.0**-97)) < 1
    deep = laplace_module._exact(Uniform(0, 96, itertools.repeat(2**63)), 2.0**24)
    assert deep == pytest.approx(2.0**24 * 97 * math.log(2), rel=1e-6)


def test_the_same_key_gives_the_same_draws_and_labels_give_others():
    labels = [Label(0, 0, 0), Label(0, 1, 0), Label(1, 0, 0), Label(0, 0, 1)]
    rows = discrete_gaussian(Stream(KEY), labels, 1_000, 2.0**24)
    np.testing.assert_array_equal(rows[0], draws(discrete_gaussian, 2.0**24, 1_000))
    correlations = np.corrcoef(rows.astype(float))
    assert np.max(np.abs(correlations - np.eye(4))) < 0.15
    assert not np.array_equal(rows, discrete_gaussian(Stream.fresh(), labels, 1_000, 2.0**24))


def test_draws_do_not_depend_on_how_many_answers_are_drawn_at_once():
    labels = [Label(t, a, 0) for t in range(30) for a in range(7)]
    together = discrete_gaussian(Stream(KEY), labels, 333, 2.0**24)
    for place in (0, 100, 209):
        alone = discrete_gaussian(Stream(KEY), [labels[place]], 333, 2.0**24)
        np.testing.assert_array_equal(together[place], alone[0])


def test_every_bit_of_a_key_matters_and_a_key_is_never_shown():
    first = Stream(KEY).words(HERE, Use.NOISE, 4)
    for bit in range(256):
        other = (int.from_bytes(KEY, "little") ^ (1 << bit)).to_bytes(32, "little")
        assert not np.any(Stream(other).words(HERE, Use.NOISE, 4) == first)
    assert repr(Stream(KEY)) == "Stream()"
    keys = {Stream.fresh().secret for _ in range(50)}
    assert len(keys) == 50
    bits = np.array([np.unpackbits(np.frombuffer(key, np.uint8)) for key in keys])
    assert np.all(bits.any(axis=0))
    assert not np.any(bits.all(axis=0))


def test_streams_of_different_labels_and_uses_have_no_block_in_common():
    labels = [Label(t, a, e) for t in (0, 1, 255, 256) for a in (0, 1, 256) for e in (0, 1, 65536)]
    words = [Stream(KEY).words(labels, use, 64) for use in Use]
    assert len(np.unique(words)) == np.size(words)


@pytest.mark.parametrize("label", [Label(-1, 0, 0), Label(2**32, 0, 0), Label(0, 0, 2**32)])
def test_a_label_out_of_range_is_refused_since_it_would_repeat_a_stream(label):
    with pytest.raises(InputError, match="out of range"):
        Stream(KEY).words([label], Use.NOISE, 1)


@pytest.mark.parametrize("law", [discrete_gaussian, discrete_laplace])
@pytest.mark.parametrize("scale", [0.0, 0.5, math.nan, math.inf, 2.0**41])
def test_scales_out_of_range_are_refused(law, scale):
    with pytest.raises(InputError):
        law(Stream(KEY), HERE, 3, scale)


def test_opendp_draws_from_the_same_law():
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l2_distance(T="i64")
    theirs = np.array(opendp.m.make_gaussian(*space, scale=2.0)([0] * 6_000))
    ours = draws(discrete_gaussian, 2.0, 6_000)
    values = np.arange(-6, 7)
    table = [[np.sum(x == v) for v in values] for x in (ours, theirs)]
    assert stats.chi2_contingency(np.array(table) + 1).pvalue > LEVEL
