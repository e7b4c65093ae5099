"""What a run without a seed draws: keys, long answers, several blocks of rounds."""

import pytest

from taciturn.audit import audit
from taciturn.audit.recorded import BLOCK, LONG, WIDE, _short_stream, key_tests
from taciturn.kernel.noise import Stream

FAULTS = [
    "part-noise",
    *(pytest.param(f, marks=pytest.mark.slow) for f in ("short-key", "repeated-noise")),
]


def test_the_run_that_is_tested_has_several_blocks_and_long_answers():
    assert LONG > 3 * BLOCK
    assert WIDE > 3 * 64


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_what_is_drawn_without_a_seed_is_seen_there_and_nowhere_else(fault):
    report = audit("noisy-gradient", mu=1.5, runs=50, seed=1, fault=fault)
    assert [layer for layer, seen in report.layers.items() if seen == "violated"] == ["drawn"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["noisy-gradient", "one-question", "recal"])
def test_what_is_drawn_without_a_seed_passes(name):
    assert audit(name, mu=1.5, runs=50, seed=1).layers["drawn"] == "consistent"


def test_fresh_keys_use_all_their_bits_and_short_ones_do_not():
    fresh, short = key_tests(Stream.fresh), key_tests(_short_stream)
    assert min(fresh.values()) > 1e-6
    assert short["repeated keys"] < 1e-50


@pytest.mark.parametrize("fault", ["repeated-noise", "reused-noise"])
def test_noise_that_is_drawn_once_cannot_be_repeated(fault):
    with pytest.raises(ValueError, match="draws noise once"):
        audit("one-question", mu=1.5, runs=50, seed=1, fault=fault)
