"""Masking words tell their sum over all and nothing else; what would break that is seen."""

import hashlib
import hmac
import itertools

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from scipy import stats

from taciturn.errors import InputError, PrivacyError
from taciturn_federation.envelope import BreachError
from taciturn_federation.masks import Masks, Participants, open_sum, shared_secret

RUN, TRANSCRIPT = bytes(range(32)), b"h" * 32
# what passes by chance once in a million times
LEAST = 1e-6


def key_of(number, run=0):
    return X25519PrivateKey.from_private_bytes(bytes([1 + number, 1 + run]) * 16)


def public_of(key):
    return key.public_key().public_bytes_raw()


def participants(agents, run=RUN, **other):
    """The set of so many; `other` has keys of some by "k2", say."""
    keys = [other.get(f"k{number}", key_of(number)) for number in range(agents)]
    signers = tuple(bytes([number]) * 32 for number in range(agents))
    return Participants(run, signers, tuple(map(public_of, keys)))


def masks_of(agents, whole=None, **how):
    whole = whole or participants(agents)
    return [Masks(key_of(n), whole, n, part="training", **how) for n in range(agents)]


def plain(agents, words=20_000):
    """Answers of a narrow law on a lattice: far from uniform words, and the same for all agents."""
    draw = np.random.default_rng(agents)
    values = np.rint(2.0**30 * draw.standard_normal((agents, words))).astype(np.int64)
    return list(values.view(np.uint64))


def sent(masks, values, turn=0, transcript=TRANSCRIPT):
    return [one.mask(turn, transcript, v) for one, v in zip(masks, values, strict=True)]


def looks_random(words, carried):
    """Whether the bytes are uniform, and the words independent of what they carry."""
    counts = np.bincount(words.astype("<u8").view(np.uint8), minlength=256)
    numbers, truth = words.view(np.int64) / 2.0**63, carried.view(np.int64) / 2.0**63
    return bool(
        stats.chisquare(counts).pvalue > LEAST and stats.pearsonr(numbers, truth).pvalue > LEAST
    )


def total(values):
    return np.add.reduce(np.stack(values)).view(np.int64)


@pytest.mark.parametrize("agents", [1, 2, 3, 10])
def test_the_sum_that_opens_is_the_plain_one_exactly(agents):
    values = plain(agents, words=500)
    values[0][:2] = np.array([-(2**51), 2**51]).view(np.uint64)
    for turn in (0, 1, 5):
        there = sent(masks_of(agents), values, turn)
        np.testing.assert_array_equal(open_sum(there, agents), total(values))


def test_every_set_of_messages_but_all_looks_random():
    values = plain(4)
    there = sent(masks_of(4), values)
    for size in (1, 2, 3):
        for some in itertools.combinations(range(4), size):
            words = np.add.reduce([there[n] for n in some])
            carried = np.add.reduce([values[n] for n in some])
            assert looks_random(words, carried), some
            assert not looks_random(carried, carried)  # the tests see what is not masked
    assert not looks_random(np.add.reduce(there), np.add.reduce(values))


def test_what_colluders_know_leaves_the_sum_of_the_honest_and_no_more():
    """Two of five give their keys away: streams with them are taken off every honest message."""
    whole, values = participants(5), plain(5)
    there = sent(masks_of(5), values)
    left = [unmasked(there[n], n, (3, 4), whole) for n in range(3)]
    np.testing.assert_array_equal(total(left), total(values[:3]))
    for some in [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]:
        carried = np.add.reduce([values[n] for n in some])
        assert looks_random(np.add.reduce([left[n] for n in some]), carried), some


def test_an_agent_whose_pairs_all_collude_is_read():
    whole, values = participants(3), plain(3)
    there = sent(masks_of(3), values)
    np.testing.assert_array_equal(unmasked(there[0], 0, (1, 2), whole), values[0])


def unmasked(words, number, known, whole):
    """A message without the streams that it shares with those who give their keys away."""
    masks = Masks(key_of(number), whole, number, part="training")
    others = [other for other in range(len(whole.keys)) if other != number]
    for other, pair in zip(others, masks._pairs, strict=True):
        if other in known:
            alone = Masks(key_of(number), whole, number, part="training")
            alone._pairs = [pair]
            words = words - alone.mask(0, TRANSCRIPT, np.zeros_like(words))
    return words


def test_among_sites_that_were_shown_different_sets_nothing_opens():
    """Agent 3 colludes and shows one key to agent 0, and another one to agents 1 and 2."""
    values, two = plain(4), key_of(3, run=9)
    sets = [participants(4), *[participants(4, k3=two)] * 2]
    there = [Masks(key_of(n), sets[n], n, part="training").mask(0, TRANSCRIPT, values[n])
             for n in range(3)]  # fmt: skip
    left = [unmasked(there[n], n, (3,), sets[n]) for n in range(3)]
    for size in (1, 2, 3):
        for some in itertools.combinations(range(3), size):
            carried = np.add.reduce([values[n] for n in some])
            assert looks_random(np.add.reduce([left[n] for n in some]), carried), some


# what is planted


def test_words_that_differ_are_not_masked_twice_in_a_round():
    values, (masks, *_) = plain(3, words=50), masks_of(3)
    first = masks.mask(4, TRANSCRIPT, values[0])
    np.testing.assert_array_equal(masks.mask(4, TRANSCRIPT, values[0]), first)
    with pytest.raises(PrivacyError, match="masked before"):
        masks.mask(4, TRANSCRIPT, values[1])
    with pytest.raises(PrivacyError, match="masked before"):
        masks.mask(4, b"x" * 32, values[0])
    with pytest.raises(PrivacyError, match="masked before"):
        masks.mask(3, TRANSCRIPT, values[0])
    again, *_ = masks_of(3, after=4)
    with pytest.raises(PrivacyError, match="masked before"):
        again.mask(4, TRANSCRIPT, values[0])
    again.mask(5, TRANSCRIPT, values[0])


def test_a_mask_that_is_used_twice_is_seen_in_the_difference():
    """The planted fault: a process that forgot; and what differs in round, past, part or run."""
    one, other, _ = plain(3)
    first, again = (masks_of(3)[0].mask(0, TRANSCRIPT, words) for words in (one, other))
    assert not looks_random(first - again, one - other)
    np.testing.assert_array_equal(first - again, one - other)
    elsewhere = [
        masks_of(3)[0].mask(1, TRANSCRIPT, other),
        masks_of(3)[0].mask(0, b"x" * 32, other),
        Masks(key_of(0), participants(3), 0, part="evaluation").mask(0, TRANSCRIPT, other),
        masks_of(3, participants(3, run=bytes(32)))[0].mask(0, TRANSCRIPT, other),
    ]
    for words in elsewhere:
        assert looks_random(first - words, one - other)


def _left_out(masks, whole):
    masks[1]._pairs = masks[1]._pairs[:1]


def _of_another_run(masks, whole):
    masks[1] = masks_of(4, participants(4, run=bytes(32)))[1]


def _with_a_key_of_another_run(masks, whole):
    masks[1] = Masks(key_of(1), participants(4, k2=key_of(2, run=5)), 1, part="training")


def _with_the_sign_turned(masks, whole):
    masks[1]._pairs = [(other, not adds, pair) for other, adds, pair in masks[1]._pairs]


@pytest.mark.parametrize(
    "plant", [_left_out, _of_another_run, _with_a_key_of_another_run, _with_the_sign_turned]
)
def test_masks_that_do_not_cancel_are_seen_by_who_opens(plant):
    values, whole = plain(4, words=100), participants(4)
    masks = masks_of(4, whole)
    plant(masks, whole)
    with pytest.raises(BreachError, match="do not cancel"):
        open_sum(sent(masks, values), 4)


def test_a_participant_with_another_transcript_opens_nothing():
    values, masks = plain(3, words=100), masks_of(3)
    there = [*sent(masks[:2], values[:2]), masks[2].mask(0, b"x" * 32, values[2])]
    with pytest.raises(BreachError, match="do not cancel"):
        open_sum(there, 3)


def test_a_sum_over_some_is_not_opened():
    there = sent(masks_of(3), plain(3, words=10))
    with pytest.raises(InputError, match="words of 2 participants out of 3"):
        open_sum(there[:2], 3)


def test_keys_that_are_none_or_of_another_are_refused():
    with pytest.raises(InputError, match="not that of participant 0"):
        Masks(key_of(1), participants(3), 0, part="training")
    with pytest.raises(InputError, match="the same mask key"):
        participants(3, k1=key_of(0))
    with pytest.raises(InputError, match="not a valid X25519 key"):
        shared_secret(key_of(0), bytes(32))  # a point with which all share one secret
    with pytest.raises(InputError, match="not a valid X25519 key"):
        shared_secret(key_of(0), b"short")
    with pytest.raises(InputError, match="each has one"):
        Participants(RUN, (bytes(32),), ())
    with pytest.raises(InputError, match="not 32 bytes long"):
        Participants(RUN, (bytes(32),), (bytes(31),))
    with pytest.raises(InputError, match="must have 32"):
        masks_of(2)[0].mask(0, b"", np.zeros(3, np.uint64))


def test_a_secret_key_is_shown_by_no_repr():
    secret = key_of(3).private_bytes_raw()
    shown = repr(key_of(3)) + repr(masks_of(2)[0])
    assert secret.hex() not in shown
    assert repr(secret)[2:-1] not in shown


def test_the_words_are_those_of_the_protocol_written_out():
    """HKDF by RFC 5869 and the stream by hand, for two participants."""
    whole = participants(2)
    shared = shared_secret(key_of(0), public_of(key_of(1)))
    secret = hmac.digest(RUN, shared, "sha256")
    info = b"taciturn masks: pair 1\n" + (0).to_bytes(4, "little") + (1).to_bytes(4, "little")
    pair = hmac.digest(secret, info + whole.digest + b"\x01", "sha256")
    label = b"taciturn masks: stream 1\n" + (7).to_bytes(4, "little") + TRANSCRIPT + b"training"
    key = hmac.digest(pair, label + b"\x01", "sha256")
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(80))
    words, values = np.frombuffer(stream, "<u8"), plain(2, words=10)
    first, second = sent(masks_of(2, whole), values, turn=7)
    np.testing.assert_array_equal(first, values[0] + words)
    np.testing.assert_array_equal(second, values[1] - words)
    text = b"taciturn masks: participants 1\n" + (2).to_bytes(4, "little") + RUN
    text += b"".join((*whole.signers, *whole.keys))
    assert whole.digest == hashlib.sha256(text).digest()
