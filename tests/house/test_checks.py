"""Validators: nothing that is not the asked-for number gets through, and the error is ours."""

import math
from functools import partial

import pytest

from taciturn import checks
from taciturn.errors import InputError

BAD = [math.nan, None, "x", [], 1j, -1, math.inf]
REFUSED = {
    checks.positive: [*BAD, 0],
    checks.not_negative: BAD,
    checks.fraction: [*BAD, 0, 1.1],
    checks.below_one: [*BAD, 1, 1.1, -1e-9],
    partial(checks.at_least, least=1): [*BAD, 0, 1.5, True, -(10**400)],
}


@pytest.mark.parametrize(
    ("check", "bad"), [(c, bad) for c, some in REFUSED.items() for bad in some]
)
def test_what_is_not_the_number_that_is_asked_for_is_refused(check, bad):
    with pytest.raises(InputError, match="x is"):
        check("x", bad)


@pytest.mark.parametrize("bad", [*BAD, 0, 1])
def test_delta_is_strictly_between_zero_and_one(bad):
    with pytest.raises(InputError, match="delta is"):
        checks.delta(bad)


def test_good_numbers_come_back_as_they_are():
    assert checks.positive("x", math.inf, allow_infinity=True) == math.inf
    assert checks.not_negative("x", 0) == 0.0
    assert checks.delta(0.5) == 0.5
    assert checks.fraction("x", 1) == 1.0
    assert checks.below_one("x", 0) == 0.0
    assert checks.at_least("x", 3.0, 3) == 3
