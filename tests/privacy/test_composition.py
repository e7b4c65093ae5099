"""Legs compose in one way: in sequence on one part of the records, beside one another on others."""

import dataclasses
import json
import math

import numpy as np
import pytest
from tests.conftest import make_plan, make_shards
from tests.privacy.certified import RECORD, book, leg_of

from taciturn.calibration import rate_of_choice
from taciturn.certificates import document_of
from taciturn.engine import charge_of, charge_of_legs, run
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.privacy import (
    Adjacency,
    ChoiceLeg,
    Laplace,
    Messages,
    ReplaceOne,
    Sum,
    TargetChange,
    Terms,
    ZeroOut,
    account,
    compose,
    epsilon_of,
    mu_of_choice,
)
from taciturn_verify import verify

DELTA = 1e-6


def terms(adjacency=RECORD, observer=None):
    return Terms(1.0, DELTA, adjacency, observer or Messages())


def leg(ratios, *, part="training", adjacency=RECORD, observer=None, agents=None, **more):
    return leg_of(book(ratios), adjacency, observer, part=part, agents=agents, **more)


def held_out(ratios, **more):
    return leg(ratios, part="held out", **more)


def certified(*legs, on=None):
    return compose(legs, on or terms()).certificate()


def test_legs_on_one_part_follow_one_another():
    """Planted fault: two legs on one part counted as disjoint, at the larger of their costs."""
    found = certified(leg([0.3, 0.1]), leg([0.4, 0.2]))
    assert found.per_agent_mu == pytest.approx((2 * 0.5, 2 * math.hypot(0.1, 0.2)))
    assert found.epsilon == pytest.approx(epsilon_of(DELTA, 1.0))
    apart = certified(leg([0.3, 0.1]), held_out([0.4, 0.2]))
    assert apart.epsilon < 0.9 * found.epsilon
    (only,) = found.legs  # a file has one leg a part
    assert only.ledger.kind.shape == (2, 8, 1)


def test_legs_on_disjoint_parts_cost_each_agent_the_larger():
    found = certified(leg([0.1, 0.2, 0.1]), held_out([0.3, 0.1], agents=(0, 1)))
    assert found.per_agent_mu == pytest.approx((0.6, 0.4, 0.2))
    assert found.mu == max(found.per_agent_mu)
    np.testing.assert_allclose(
        found.per_agent_epsilon, [epsilon_of(DELTA, mu) for mu in (0.6, 0.4, 0.2)], rtol=1e-9
    )


def test_a_leg_without_mu_leaves_none_and_the_dearest_epsilon():
    other = leg_of(book([0.5, 0.5], mechanism=Laplace()), RECORD, part="held out")
    found = certified(leg([0.1, 0.6]), other)
    alone = account(other.ledger.events_by_agent()[0], delta=DELTA, relation=ReplaceOne()).epsilon
    assert (found.mu, found.per_agent_mu) == (None, None)
    assert found.per_agent_epsilon == pytest.approx((alone, epsilon_of(DELTA, 1.2)))


def test_poisson_batches_beyond_epsilon_50_have_no_certificate():
    """Planted fault: noise so small that a batch which overflows costs what nobody set aside."""
    zeroed, rate = Adjacency(ZeroOut(), "record"), np.full((1, 4, 1), 0.5)
    on = terms(zeroed)
    fine, dear, endless = (leg_of(book([r], rate=rate), zeroed) for r in (3.0, 6.0, math.inf))
    assert 20 < certified(fine, on=on).epsilon < 50
    for others in ((), (held_out([0.1], adjacency=zeroed),)):
        with pytest.raises(InputError, match="up to epsilon 50, and the training part has"):
            certified(dear, *others, on=on)
    assert certified(leg([6.0], adjacency=zeroed), on=on).epsilon > 50  # of all records
    assert math.isinf(certified(endless, on=on).epsilon)


def test_no_leg_can_be_dropped_without_a_smaller_cost():
    """Planted fault: a leg dropped, the dearest one in sequence or beside the others."""
    legs = (leg([0.1, 0.2]), leg([0.2, 0.1]), held_out([0.5, 0.6]))
    whole = certified(*legs)
    for place in range(len(legs)):
        rest = certified(*legs[:place], *legs[place + 1 :])
        assert rest.legs != whole.legs
    assert certified(*legs[:2]).epsilon < whole.epsilon
    assert charge_of_legs(compose(legs, terms())) != charge_of_legs(compose(legs[:2], terms()))


def test_an_observer_who_is_credited_in_one_leg_only_is_refused():
    """Planted fault: a sum credited beside a leg whose messages were all accounted for."""
    on, messages = terms(observer=Sum(1)), leg([0.1] * 4)
    summed = leg([0.1] * 4, observer=Sum(1))
    for legs, under in (
        ((messages, held_out([0.1] * 4, observer=Sum(1))), on),
        ((summed, held_out([0.1] * 4, observer=Sum(0))), on),
        ((summed,), terms()),  # under the name of all messages
    ):
        with pytest.raises(PrivacyError, match="weaker observer"):
            certified(*legs, on=under)
    with pytest.raises(PrivacyError, match="observer"):
        certified(summed, messages, on=on)
    both = certified(summed, held_out([0.1] * 4), on=on)
    assert both.mu == pytest.approx(0.2)  # what is accounted for all messages holds for their sum


@pytest.mark.parametrize(
    "other",
    [
        Adjacency(ZeroOut(), "record"),
        Adjacency(TargetChange(0.1), "record"),
        Adjacency(ReplaceOne(), "person", 2),
        Adjacency(ReplaceOne(), "agent"),
    ],
)
def test_a_relation_or_unit_that_differs_between_legs_is_refused(other):
    with pytest.raises(PrivacyError, match="other neighbours"):
        certified(leg([0.1]), held_out([0.1], adjacency=other))
    with pytest.raises(PrivacyError, match="other neighbours"):
        certified(leg([0.1], adjacency=other))
    if other.unit == "person":
        more = held_out([0.1], adjacency=Adjacency(ReplaceOne(), "person", 3))
        with pytest.raises(PrivacyError, match="other neighbours"):
            certified(leg([0.1], adjacency=other), more, on=terms(other))


def test_counts_and_agents_that_differ_are_refused():
    both = leg([0.1, 0.1])
    for other, error, words in (
        (leg([0.1, 0.1], records=(10, 11)), PrivacyError, "records"),
        (leg([0.1], agents=(0,)), PrivacyError, "agents"),
        (held_out([0.1]), InputError, r"\[1, 2\] agents"),
        *(
            (held_out([0.1, 0.1], agents=agents), PrivacyError, "distinct agents of 2")
            for agents in ((0, 0), (1, 0), (0, 2), (-1, 0))
        ),
    ):
        with pytest.raises(error, match=words):
            certified(both, other)
    with pytest.raises(InputError, match="at least one"):
        certified(leg([0.1], agents=(0,)))
    with pytest.raises(PrivacyError, match="the records of 3"):
        leg([0.1, 0.1], records=(1, 2, 3))


@pytest.mark.parametrize(
    ("adjacency", "reason"),
    [
        (Adjacency(ReplaceOne(), "agent"), "both parts"),
        (Adjacency(ReplaceOne(), "person", 2, 2), "several agents"),
    ],
)
def test_a_unit_in_several_parts_is_refused(adjacency, reason):
    for other in (held_out([0.1], adjacency=adjacency), ChoiceLeg("held out", 0.1)):
        with pytest.raises(PrivacyError, match=reason):
            certified(leg([0.1], adjacency=adjacency), other, on=terms(adjacency))


def test_a_choice_is_a_leg_of_every_agent_on_a_part_of_its_own():
    rate = rate_of_choice(0.5, ReplaceOne())
    found = certified(leg([0.1, 0.4]), ChoiceLeg("held out", rate))
    assert found.per_agent_mu == pytest.approx((0.5, 0.8))
    assert mu_of_choice(rate, ReplaceOne()) == found.per_agent_mu[0]
    charge = charge_of_legs(compose(found.legs, terms()))
    assert [1 / events[0][0].multiplier for events in charge.messages] == pytest.approx([0.5, 0.8])
    for others in ([ChoiceLeg("training", rate)], 2 * [ChoiceLeg("held out", rate)]):
        with pytest.raises(PrivacyError, match="answer elsewhere"):
            certified(leg([0.1]), *others)
    with pytest.raises(InputError, match="at least one"):
        certified(ChoiceLeg("held out", rate))


def test_records_that_are_dealt_cost_every_agent_the_dearest_figure():
    found = certified(leg([0.1, 0.2], dealt=True), held_out([0.3], agents=(0,), dealt=True))
    assert found.per_agent_mu == pytest.approx((0.6, 0.6))
    assert any("secret draw" in text for text in found.conditions)
    with pytest.raises(PrivacyError, match="other neighbours"):
        certified(leg([0.1], dealt=True), held_out([0.1]))


def test_what_is_not_known_to_compose_in_sequence_is_refused():
    shape = (1, 4, 1)
    laplace = leg_of(book([0.1], mechanism=Laplace()), RECORD)
    sampled = leg_of(book([0.1], rate=np.full(shape, 0.5)), RECORD)
    lattice = leg_of(book([0.1], step=np.full(shape, 2.0**-30)), RECORD)
    for other in (laplace, sampled):
        with pytest.raises(InputError, match="all noise is Gaussian"):
            certified(leg([0.1]), other)
    with pytest.raises(PrivacyError, match="lattice"):
        certified(leg([0.1]), lattice)
    dear = leg_of(book([5.0], step=np.full(shape, 2.0**-30)), RECORD)
    with pytest.raises(InputError, match="below 20"):
        certified(dear, dear)


@pytest.mark.parametrize(
    "other",
    [{"adjacency": Adjacency(ZeroOut(), "record")}, {"dealt": True}, {"records": (2,)}],
    ids=lambda other: next(iter(other)),
)
def test_legs_on_one_part_are_about_the_same_neighbours_and_records(other):
    """The sensitivities of one are smaller; in sequence they would count as those of all."""
    weaker = dataclasses.replace(leg([0.1]), **other)
    for several in ((leg([0.1]), weaker), (leg([0.1]), leg([0.1]), weaker)):
        with pytest.raises(PrivacyError, match="differ in their"):
            certified(*several)


def test_a_claim_in_any_leg_makes_the_whole_conditional():
    claim = {"kind": "claimed", "by": ["mine:Question"]}
    other = dataclasses.replace(held_out([0.1]), questions=(claim,))
    found = certified(leg([0.1]), other)
    assert found.conditional
    assert "mine:Question" in found.conditions[0]
    assert "the author of mine:Question" in found.trust


def test_a_stranger_comes_to_the_same_verdict_and_figures():
    plans = [make_plan("noisy-gradient", make_shards(), rounds=rounds) for rounds in (3, 5)]
    legs = [plan.leg for plan in plans]
    rate = rate_of_choice(0.01, plans[0].terms.adjacency.relation)
    for several in (legs[:1], legs, [*legs, ChoiceLeg("held out", rate)]):
        found = compose(several, plans[0].terms).certificate()
        stated = {**document_of(found), "conditions": [], "statement": []}
        document = json.loads(json.dumps(stated))
        verdict = verify(document)
        assert verdict.verdict == "follows", verdict.reason
        assert verdict.figures["epsilon"][1] == pytest.approx(found.epsilon, rel=1e-12)
        cheaper = {**document, "legs": document["legs"][1:]}
        assert verify(cheaper).verdict == "does not follow"


def edited(leg, **changed):
    return (dataclasses.replace(leg, **changed),)


LESS = {
    "no leg": lambda leg: (),
    "a leg dropped for a choice": lambda leg: (ChoiceLeg("training", 1e-3),),
    "another part": lambda leg: edited(leg, part="held out"),
    "other records": lambda leg: edited(leg, records=(99,) * len(leg.records)),
    "another question": lambda leg: edited(leg, questions=()),
    "another observer": lambda leg: edited(leg, observer=Sum(0)),
    "other neighbours": lambda leg: edited(leg, adjacency=Adjacency(ZeroOut(), "record")),
    "more noise": lambda leg: edited(
        leg, ledger=dataclasses.replace(leg.ledger, scale=2 * leg.ledger.scale)
    ),
}


@pytest.mark.parametrize("fault", LESS)
def test_a_plan_whose_certificate_has_other_legs_is_refused(fault):
    """The file of such a run would show a stranger legs that are not the run's."""
    shards = make_shards()
    made = make_plan("noisy-gradient", shards)
    (own,) = made.certificate.legs
    forged = dataclasses.replace(made.certificate, legs=LESS[fault](own))
    for stamped in (forged, forged.stamped()):
        with pytest.raises(PrivacyError, match="not follow from its ledger"):
            run(dataclasses.replace(made, certificate=stamped), shards, runtime="simulate")
    assert charge_of(dataclasses.replace(made, certificate=forged)) == charge_of(made)


def test_a_ledger_that_is_equal_is_the_same_wherever_it_came_from():
    made = make_plan("noisy-gradient", make_shards())
    again = make_plan("noisy-gradient", make_shards())
    assert made.ledger is not again.ledger
    assert made.certificate == again.certificate
    for name in ("kind", "sensitivity", "scale", "rate", "batch", "step"):
        other = np.array(getattr(made.ledger, name))
        other[0, -1, 0] = {"rate": 0.5}.get(name, other[0, -1, 0] + 1)
        assert dataclasses.replace(made.ledger, **{name: other}) != made.ledger
    assert dataclasses.replace(made.ledger, values=9) != made.ledger
