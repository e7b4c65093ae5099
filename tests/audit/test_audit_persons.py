"""The audit of a person: all rows of one at once, at one agent or several."""

import dataclasses

import pytest

from taciturn.audit import audit, check_oracle
from taciturn.audit.auditing import prepared
from taciturn.audit.epsilon import lower_bound, ratios
from taciturn.audit.subject import Setup
from taciturn.errors import InputError
from taciturn.kernel.privacy import Messages, Sum, epsilon_of
from taciturn.kernel.questions import Gradient
from taciturn.kernel.records import Origin
from taciturn.problems import Squared


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "agents", "observer"), [(3, 1, Messages()), (2, 3, Messages()), (2, 3, Sum(1))]
)
def test_an_attack_on_a_person_finds_nearly_the_mu_of_the_certificate_and_no_more(
    rows, agents, observer
):
    report = audit(
        "noisy-gradient",
        mu=1.5,
        # a sum shows this attack two of three agents, so mu is 1 to it: 10,000 runs prove 0.95
        runs=1500 if isinstance(observer, Messages) else 10_000,
        seed=3,
        observer=observer,
        rows_per_person=rows,
        agents_per_person=agents,
    )
    assert report.verdict == "consistent", report
    assert report.claimed_mu == pytest.approx(1.5, rel=1e-4)
    found = report.likelihood.mu
    # one colluder is planned for, whom this attacker does not have
    assert found > (1.2 if isinstance(observer, Messages) else 0.9)


@pytest.mark.slow
def test_an_attack_on_a_person_sees_a_plan_that_was_made_for_rows():
    """Planted fault: the noise of one row where three rows change together."""
    setup = Setup(epsilon=float(epsilon_of(1e-5, 1.5)), records=6, rows_per_person=3)
    pair, _ = prepared("noisy-gradient", setup, 0)
    _, of_rows = prepared("noisy-gradient", dataclasses.replace(setup, rows_per_person=None), 0)
    # a run refuses such records: here they say that they are of rows
    first, second = (dataclasses.replace(one, origin=Origin()) for one in (pair.first, pair.second))
    pair = dataclasses.replace(pair, first=first, second=second)
    sides = ratios(of_rows, pair, None, runs=500, seeds=[0, 1])
    assert lower_bound(*sides, confidence=0.95).mu > 1.5


def test_the_kit_measures_persons_too():
    report = check_oracle(Gradient(Squared(), 1.0), trials=200)
    named = {law.name for law in report.laws}
    assert {"sensitivity, zero_out, person", "sensitivity, replace_one, person"} <= named
    assert report.passes, report


@pytest.mark.parametrize(
    "settings",
    [
        {"agents_per_person": 2},
        {"rows_per_person": 0},
        {"rows_per_person": 2, "agents_per_person": 9},
    ],
)
def test_attacks_on_no_person_are_refused(settings):
    with pytest.raises(InputError):
        audit("noisy-gradient", mu=1.5, runs=10, **settings)
