"""Validators: nothing that is not the asked-for number gets through, and the error is ours."""

import math

import pytest

from taciturn import checks
from taciturn.errors import InputError

BAD = [math.nan, None, "x", [], 1j]


@pytest.mark.parametrize("bad", [*BAD, 0, -1, math.inf])
def test_positive_refuses_what_is_not_a_positive_number(bad):
    with pytest.raises(InputError, match="x is"):
        checks.positive("x", bad)


@pytest.mark.parametrize("bad", [*BAD, -1, math.inf])
def test_not_negative_refuses_what_is_below_zero_or_no_number(bad):
    with pytest.raises(InputError, match="x is"):
        checks.not_negative("x", bad)


@pytest.mark.parametrize("bad", [*BAD, 0, 1, -1, math.inf])
def test_delta_is_strictly_between_zero_and_one(bad):
    with pytest.raises(InputError, match="delta is"):
        checks.delta(bad)


@pytest.mark.parametrize("bad", [*BAD, 0, 1.1, -1, math.inf])
def test_a_fraction_is_above_zero_and_at_most_one(bad):
    with pytest.raises(InputError, match="x is"):
        checks.fraction("x", bad)


@pytest.mark.parametrize("bad", [*BAD, 1, 1.1, -1e-9, math.inf])
def test_a_share_below_one_may_be_zero(bad):
    with pytest.raises(InputError, match="x is"):
        checks.below_one("x", bad)


@pytest.mark.parametrize("bad", [*BAD, 0, 1.5, True, math.inf, -(10**400)])
def test_a_count_is_a_whole_number_of_at_least_the_least(bad):
    with pytest.raises(InputError, match="x is"):
        checks.at_least("x", bad, 1)


def test_good_numbers_come_back_as_they_are():
    assert checks.positive("x", math.inf, allow_infinity=True) == math.inf
    assert checks.not_negative("x", 0) == 0.0
    assert checks.delta(0.5) == 0.5
    assert checks.fraction("x", 1) == 1.0
    assert checks.below_one("x", 0) == 0.0
    assert checks.at_least("x", 3.0, 3) == 3
