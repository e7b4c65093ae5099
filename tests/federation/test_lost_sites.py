"""A run goes on without sites that are lost, and no sum over some of its members is ever read."""

import json
import random
from collections import defaultdict
from itertools import combinations, pairwise

import numpy as np
import pytest
from tests.federation.studies import RING, make_study
from tests.federation.wire import check_ended, meet, signer_of, words

from taciturn.errors import InputError
from taciturn.kernel.privacy import Sum
from taciturn_federation.attendance import Attendance
from taciturn_federation.envelope import BreachError, Kind
from taciturn_federation.masks import open_total
from taciturn_federation.reports import RunReport
from taciturn_verify.judging import verify
from taciturn_verify.reading import parse

SCHEDULES = 12  # of the two hundred that were run once


def lossy(folder, *, agents=4, quorum=3, patience=5.0, **asked):
    return make_study(folder, agents=agents, quorum=quorum, patience=patience, **asked)


def published(hub):
    """The members and the value of every round, as the first packet of it had them."""
    agents, found = hub.study.agents, {}
    for _, one in hub.envelopes(Kind.PUBLIC):
        members = tuple(np.flatnonzero(np.frombuffer(one.body[:agents], np.uint8)).tolist())
        found.setdefault(one.round, (members, one.body[agents:]))
    return found


def sums_that_open(hub):
    """The rounds and sets of agents whose words cancel their masks, of all that was sent."""
    sent = defaultdict(dict)
    for (agent, turn), bodies in hub.answers(Kind.MESSAGE).items():
        (sent[turn][agent],) = bodies
    found = set()
    for turn, bodies in sent.items():
        for size in range(1, len(bodies) + 1):
            for agents in combinations(sorted(bodies), size):
                total = np.add.reduce([words(bodies[agent]).view(np.uint64) for agent in agents])
                try:
                    open_total(total, size)
                except BreachError:
                    continue
                found.add((turn, agents))
    return found


@pytest.fixture(scope="module")
def summed(tmp_path_factory):
    return lossy(tmp_path_factory.mktemp("lossy"), observer=Sum(1))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return lossy(tmp_path_factory.mktemp("plain"))


def test_under_sum_a_round_that_misses_a_site_is_given_up_and_the_next_asks_the_others(
    summed, tmp_path
):
    hub = meet(summed, tmp_path).run_to(2)
    hub.kill(1)
    hub.run()
    assert hub.endings() == {"finished"}
    rounds = published(hub)
    lost = next(turn for turn, (members, _) in rounds.items() if members == (0, 2, 3))
    assert rounds[lost][1] == rounds[lost - 1][1], "the value stays where no sum was opened"
    assert all(members == (0, 1, 2, 3) for turn, (members, _) in rounds.items() if turn < lost)
    opened = sums_that_open(hub)
    assert opened == {(turn, rounds[turn][0]) for turn in range(6) if turn != lost - 1}, (
        "each sum is over the members of its round, and that of the lost round is closed"
    )
    assert "1 of its 6 rounds missed a site" in hub.outcome("coordinator").line
    assert "are missing in a round (at most 1)" in str(hub.outcome(0).certificate.lines())


def test_under_messages_a_round_is_completed_by_those_who_answered(plain, tmp_path):
    hub = meet(plain, tmp_path).run_to(2)
    hub.kill(1)
    hub.run()
    assert hub.endings() == {"finished"}
    rounds = published(hub)
    assert rounds[6][0] == (0, 2, 3)
    values = [value for _, value in rounds.values()]
    assert len(set(values)) == len(values), "every round made a step"


@pytest.mark.parametrize("kind", ["summed", "plain"])
def test_a_site_that_comes_back_is_asked_again_and_has_the_model(kind, request, tmp_path):
    study = request.getfixturevalue(kind)
    hub = meet(study, tmp_path).run_to(1)
    hub.kill(2)
    hub.run(until=lambda: (0, 1, 3) in {members for members, _ in published(hub).values()})
    hub.join(2)
    hub.run()
    assert hub.endings() == {"finished"}
    assert published(hub)[6][0] == (0, 1, 2, 3)
    models = [hub.outcome(name).model for name in (0, 1, 2, 3, "coordinator")]
    for model in models:
        np.testing.assert_array_equal(model, models[0])
    assert hub.answered_once()


def test_a_run_with_fewer_sites_than_the_quorum_is_abandoned(summed, tmp_path):
    hub = meet(summed, tmp_path).run_to(2)
    hub.kill(1, 2)
    hub.run()
    check_ended(hub, "coordinator", "abandoned", "sinai, charite did not answer")
    assert {turn for turn, _ in sums_that_open(hub)} <= {0, 1}


def test_a_site_that_refuses_is_lost_at_once(summed, tmp_path, monkeypatch):
    hub = meet(summed, tmp_path).run_to(2)
    began = hub.now
    hub.parties[3]._fail("its disk broke", breach=False)
    refusal = signer_of(summed, 3).seal_values(Kind.REFUSAL, 0, {"line": "its disk broke"})
    hub.deliver("coordinator", summed.signed.subjects.state(3), refusal)
    hub.run(until=lambda: hub.outcome("coordinator") is not None)
    assert hub.outcome("coordinator").ending == "finished"
    assert hub.now - began < summed.signed.patience


@pytest.mark.parametrize("members", [(0, 1), (0,), (), (1, 2, 3, 4)])
def test_a_site_answers_no_coordinator_that_names_too_few(summed, tmp_path, members):
    hub = meet(summed, tmp_path)
    hub.run(until=lambda: len(published(hub)) == 2)
    body = bytearray(next(e.body for _, e in hub.envelopes(Kind.PUBLIC) if e.round == 1))
    body[:4] = bytes(int(agent in members) for agent in range(4))
    if 4 in members:
        body[1] = 2  # neither a member nor none
    hub.deliver(
        0, summed.signed.subjects.public(1), signer_of(summed).seal(Kind.PUBLIC, 1, bytes(body))
    )
    assert hub.outcome(0).ending == "refused"


def test_sites_that_were_named_different_members_open_nothing(summed, tmp_path):
    """The coordinator tells site 3 that all are asked, and the others that 3 is not."""
    agents = summed.agents

    def spoil(sender, receiver, packet):
        envelope = summed.signed.opener.open(packet.payload)
        if envelope.kind == Kind.PUBLIC and envelope.round == 2 and receiver != 3:
            body = bytes([1, 1, 1, 0]) + envelope.body[agents:]
            payload = signer_of(summed).seal(Kind.PUBLIC, 2, body, transcript=envelope.transcript)
            return [(0.0, packet._replace(payload=payload))]
        return [(0.0, packet)]

    hub = meet(summed, tmp_path, spoil=spoil).run(seconds=20)
    assert not {agents for turn, agents in sums_that_open(hub) if turn == 2 and 3 in agents}


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"quorum": 5}, "lower it"),
        ({"network": RING}, "only a coordinator"),
        ({"evaluate": 0.2}, "asked once"),
        ({"algorithm": "counts", "rounds": 1, "features": "cells:town"}, "all sites"),
        ({"observer": Sum(1), "quorum": 2}, "--colluders 2"),
    ],
)
def test_a_quorum_that_the_guarantee_or_the_network_does_not_allow_is_refused(tmp_path, how, words):
    with pytest.raises(InputError, match=words):
        lossy(tmp_path, **how)


def counted(hub, *, summed):
    """Who is in the step after each round, by what was published; None for a round without one."""
    rounds = [members for _, (members, _) in sorted(published(hub).items())]
    return [
        None if summed and set(now) - set(after) else set(now) & set(after)
        for now, after in pairwise(rounds)
    ]


def attended(found, names):
    """What an attendance says: who is in each round, None for a missed one, "?" for an unknown."""
    steps = []
    for turn in range(found.rounds):
        inside = [any(a <= turn <= b for a, b in turns) for _, turns in found.sites]
        missed, unknown = (
            any(a <= turn <= b for a, b in ranges) for ranges in (found.missed, found.unknown)
        )
        assert missed + unknown + any(inside) == 1
        step = {agent for agent, one in enumerate(inside) if one}
        steps.append("?" if unknown else None if missed else step)
    assert [name for name, _ in found.sites] == names
    return steps


@pytest.mark.parametrize("kind", ["summed", "plain"])
def test_every_party_states_who_was_in_which_round_by_the_signed_values(kind, request, tmp_path):
    study = request.getfixturevalue(kind)
    hub = meet(study, tmp_path).run_to(1)
    hub.kill(2)
    hub.run(until=lambda: (0, 1, 3) in {members for members, _ in published(hub).values()})
    hub.join(2)
    hub.run()
    expected = counted(hub, summed=kind == "summed")
    assert {0, 1, 3} in expected
    assert (None in expected) == (kind == "summed")
    names = [site.name for site in study.signed.participants]
    for name, party in hub.parties.items():
        party.close()
        found = attended(party.attendance, names)
        away = [turn for turn, one in enumerate(found) if one == "?"]
        assert name == 2 or not away
        assert [one for one in found if one != "?"] == [
            one for turn, one in enumerate(expected) if turn not in away
        ]
        again = hub.makers[name]()  # from the disk alone
        again.close()
        assert again.attendance == party.attendance


def test_complete_attendance_is_one_sentence_and_a_run_of_all_has_none(plain, finished, tmp_path):
    hub = meet(plain, tmp_path).run()
    hub.parties[1].close()
    assert hub.parties[1].attendance.lines == ["Every site took part in all 6 rounds."]
    hub.close()
    hub, _ = finished
    hub.parties[1].close()
    assert hub.parties[1].attendance is None


def test_report_and_certificate_state_the_attendance_and_the_verifier_accepts_them(plain, tmp_path):
    hub = meet(plain, tmp_path).run_to(2)
    hub.kill(1)
    hub.run()
    party = hub.parties["coordinator"]
    party.close()
    report = RunReport(
        signed=plain.signed, plan=party.plan, outcome=party.outcome, score=None, seconds=1.0,
        attendance=party.attendance,
    )  # fmt: skip
    file = report.save(tmp_path / "report", force=False)
    stated = json.loads(file.read_text())["attendance"]
    assert stated == json.loads((tmp_path / "report/results.json").read_text())["attendance"]
    first, last = stated["sites"]["sinai"][0]
    assert 0 == first < last < 5 == stated["sites"]["mercy"][0][1]
    assert f"sinai took part in rounds 0-{last}." in report.lines(file)
    assert f"sinai took part in rounds 0-{last}." in (tmp_path / "report/report.html").read_text()
    assert verify(parse(file.read_text())).verdict == "follows"


def test_a_site_that_is_lost_and_answers_late_is_in_no_step_that_left_it_out(plain, tmp_path):
    """Its answer of the round arrives between the loss of two sites: it is back a round later."""
    hub = meet(plain, tmp_path).run_to(1)
    coordinator = hub.parties["coordinator"]
    turn = coordinator.progress().round
    coordinator._lose((2,), "did not answer")
    hub.run()
    coordinator.close()
    rounds = published(hub)
    assert 2 in rounds[turn][0]
    assert 2 not in rounds[turn + 1][0]
    assert 2 in rounds[turn + 2][0]
    charite = dict(coordinator.attendance.sites)["charite"]
    assert charite == ((0, turn - 1), (turn + 2, 5))


def test_ranges_of_rounds_are_written_as_people_count_them():
    found = Attendance((("a", ((0, 2), (4, 4))), ("b", ())), ((3, 3),), ((5, 6),), 7)
    assert found.lines == [
        "a took part in rounds 0-2, 4.",
        "b took part in no round.",
        "A site was missing in round 3, which made no step.",
        "This party was away and knows nothing of rounds 5-6.",
    ]
    assert found.values["sites"] == {"a": [[0, 2], [4, 4]], "b": []}


def come_back(hub, away):
    """Start the processes of the sites whose time has come."""
    for agent in [agent for agent, back in away.items() if back <= hub.now]:
        hub.join(agent)
        del away[agent]


def schedule(study, folder, seed):
    """A run in which up to three sites are away at any moment, for a random time or for ever."""
    draw, away = random.Random(seed), {}
    hub = meet(study, folder, seed=seed, spoil=lambda *given: [(draw.uniform(0, 0.8), given[-1])])
    for _ in range(draw.randrange(5, 60)):
        come_back(hub, away)
        if hub.outcome("coordinator") is not None:
            break
        if len(away) < 3 and draw.random() < 0.3:
            agent = draw.choice([agent for agent in range(study.agents) if agent not in away])
            hub.kill(agent)
            away[agent] = hub.now + (1e9 if draw.random() < 0.3 else draw.uniform(0.5, 20))
        if draw.random() < 0.1:
            hub.restart("coordinator")
        hub.run(seconds=draw.uniform(0.1, 4.0))
    hub.run(seconds=20)
    come_back(hub, away)
    return hub.run(seconds=300)


@pytest.mark.slow
def test_ten_sites_of_which_three_may_be_away_end_with_a_true_model_or_none(tmp_path, monkeypatch):
    """Random schedules; all that was sent opens no sum but one of each round's members."""
    study = lossy(tmp_path, agents=10, quorum=7, observer=Sum(4), rows=8, patience=12.0)
    endings = defaultdict(int)
    for seed in range(SCHEDULES):
        folder = tmp_path / str(seed)
        folder.mkdir()
        monkeypatch.setenv("TACITURN_STATE_DIR", str(folder / "state"))  # as on another machine
        hub = schedule(study, folder, seed)
        outcome = hub.outcome("coordinator")
        endings[outcome.ending] += 1
        rounds = published(hub)
        sent = defaultdict(dict)
        for (agent, turn), bodies in hub.answers(Kind.MESSAGE).items():
            (sent[turn][agent],) = bodies
        for turn, bodies in sent.items():
            members = rounds[turn][0]
            assert set(bodies) <= set(members)
            total = np.add.reduce([words(body).view(np.uint64) for body in bodies.values()])
            if set(bodies) == set(members):
                open_total(total, len(members))
            else:
                with pytest.raises(BreachError):
                    open_total(total, len(bodies))
        if outcome.ending == "finished":
            for name, party in hub.parties.items():
                if party.outcome is not None and party.outcome.ending == "finished":
                    np.testing.assert_array_equal(party.outcome.model, outcome.model, str(name))
        hub.close()
    assert endings["finished"] > SCHEDULES // 2, dict(endings)
