"""Before the start nobody waits for ever, nothing is spent, and the same commands try again."""

import asyncio
import functools

import pytest
from tests.federation.hubs import Told, admitted_study, free_port, proposed, running, served
from tests.federation.studies import make_study
from tests.federation.test_breaches import seal_of
from tests.federation.test_parties import guarded_accounts
from tests.federation.wire import coordinator_of, envelopes, meet, site_of

from taciturn_federation import Coordinator, Journal, decline
from taciturn_federation.envelope import Kind
from taciturn_federation.envelope import Packet
from taciturn_federation.inbox import NOT_STARTED
from taciturn_federation.transport import DecliningSite


def again(hub, study, folder, who, how=None):
    """Start parties whose processes have ended, as the same commands do."""
    for name in who:
        hub.die(name)
        make = functools.partial(coordinator_of, study, folder)
        if name != "coordinator":
            make = functools.partial(site_of, study, name, folder, **(how or {}).get(name, {}))
        hub.join(name, make)


def ended_unstarted(party, text):
    assert party.outcome.ending == "abandoned"
    assert text in party.outcome.line
    assert party.outcome.line.endswith(NOT_STARTED)


@pytest.fixture
def accounts(star):
    return guarded_accounts(star)


def private(accounts, agents=range(3)):
    return {agent: {"seed": None, "account": accounts[agent]} for agent in agents}


def test_a_site_that_never_comes_ends_the_waiting_and_all_can_try_again(star, tmp_path, accounts):
    """The others had waited for ever."""
    hub = meet(star, tmp_path, seed=None, accounts=accounts, sites=[0, 1])
    hub.run(seconds=29)
    assert hub.parties["coordinator"].outcome is None
    hub.run(seconds=20)
    for who in ("coordinator", 0, 1):
        ended_unstarted(hub.parties[who], "charite did not accept for 30 s")
        assert not hub.parties[who].needed
    assert [run.status for run in accounts[0].state().runs] == ["returned"]
    assert hub.parties[0]._journal.run(star.signed.digest).phase == "accepted"
    again(hub, star, tmp_path, ["coordinator", 0, 1, 2], private(accounts))
    hub.run()
    for who in ("coordinator", 0, 1, 2):
        assert hub.parties[who].outcome.ending == "finished"
    assert [run.status for run in accounts[0].state().runs] == ["returned", "released"]


def test_patience_starts_anew_with_every_site_that_comes(star, tmp_path):
    hub = meet(star, tmp_path, sites=[0])
    hub.run(seconds=25)
    hub.join(1, functools.partial(site_of, star, 1, tmp_path))
    hub.run(seconds=25)
    assert hub.parties["coordinator"].outcome is None
    hub.join(2, functools.partial(site_of, star, 2, tmp_path))
    hub.run()
    assert hub.parties["coordinator"].outcome.ending == "finished"


def test_a_site_that_cannot_begin_ends_the_waiting_at_once_and_all_can_try_again(star, tmp_path):
    """Its process had ended without a word."""
    hub = meet(star, tmp_path, sites=[0, 2])
    hub.join(1, lambda: DecliningSite(star.signed, 1, star.keys[1]))
    hub.run(seconds=5)
    for who in ("coordinator", 0, 2):
        ended_unstarted(hub.parties[who], "sinai refused: it could not begin")
        assert not hub.parties[who].needed
    assert hub.parties[1].outcome.ending == "refused"
    del hub.parties[1]
    again(hub, star, tmp_path, ["coordinator", 0, 1, 2])
    hub.run()
    assert hub.parties["coordinator"].outcome.ending == "finished"


def test_sites_that_hear_no_coordinator_give_up_and_can_try_again(star, tmp_path, accounts):
    hub = meet(star, tmp_path, seed=None, accounts=accounts)
    hub.queue = []
    hub.die("coordinator")
    hub.run(seconds=59)
    assert hub.parties[0].outcome is None
    hub.run(seconds=3)
    for agent in range(3):
        ended_unstarted(hub.parties[agent], "nobody was heard for twice the patience")
    assert not accounts[1].state().charged
    again(hub, star, tmp_path, ["coordinator", 0, 1, 2], private(accounts))
    hub.run()
    assert hub.parties[0].outcome.ending == "finished"


def test_a_site_waits_as_long_as_the_coordinator_is_heard(tmp_path):
    study = make_study(tmp_path, patience=5.0)
    hub = meet(study, tmp_path, sites=[0])
    hub.parties["coordinator"].signed = study.signed.model_copy(update={"patience": 1000.0})
    hub.run(seconds=60)
    assert hub.parties[0].outcome is None


def test_the_end_of_an_attempt_that_did_not_start_ends_no_later_one(star, tmp_path):
    """A hub could keep it and hand it over again."""
    hub = meet(star, tmp_path, sites=[0, 1])
    hub.run(seconds=50)
    (old, *_) = [packet for who, packet, _ in envelopes(hub, star, Kind.END)]
    again(hub, star, tmp_path, ["coordinator", 0, 1, 2])
    hub.run(until=lambda: hub.parties[0].progress().round == 2)
    hub.tell(0, old)
    assert hub.parties[0].outcome is None
    hub.run()
    assert hub.parties[0].outcome.ending == "finished"


def test_a_refusal_to_begin_ends_no_run_that_has_begun(star, tmp_path):
    """As of a second process, or of a command with another file, beside a run under way."""
    hub = meet(star, tmp_path)
    hub.run(until=lambda: hub.parties["coordinator"].progress().round == 2)
    values = {"line": "x", "started": False}
    sealed = seal_of(star, 1).seal_values(Kind.REFUSAL, 0, values)
    hub.tell("coordinator", Packet(star.signed.subjects.state(1), sealed))
    hub.run()
    assert hub.parties["coordinator"].outcome.ending == "finished"


def test_a_refusal_after_the_start_is_final(star, tmp_path):
    hub = meet(star, tmp_path)
    hub.run(until=lambda: hub.parties["coordinator"].progress().round == 2)
    sealed = seal_of(star, 1).seal_values(Kind.REFUSAL, 0, {"line": "no"})
    hub.tell("coordinator", Packet(star.signed.subjects.state(1), sealed))
    hub.run(seconds=5)
    again(hub, star, tmp_path, ["coordinator", 0])
    assert hub.parties["coordinator"].outcome.line == "sinai refused: no"
    assert hub.parties[0].outcome.ending == "abandoned"


def test_under_masks_the_key_outlives_an_attempt_that_did_not_start(tmp_path):
    study = make_study(tmp_path, observer="sum")
    hub = meet(study, tmp_path, sites=[0, 1])
    hub.run(seconds=50)
    ended_unstarted(hub.parties[0], "charite did not accept")
    again(hub, study, tmp_path, ["coordinator", 0, 1, 2])
    hub.run()
    assert hub.parties["coordinator"].outcome.ending == "finished"


def test_a_coordinator_hears_over_the_hub_that_a_site_cannot_begin(tmp_path):
    port = free_port()
    study, sites = admitted_study(tmp_path, port=port)
    signed = proposed(study)
    with running(study, port) as hub:
        party = Coordinator(signed, Journal(tmp_path / "c.journal"), study.signing_key())
        link = hub.site_link(sites[0], signed)

        async def both():
            declined = asyncio.to_thread(decline, signed, 0, sites[0].signing_key(), link)
            waiting = served(party, hub.coordinator_link(), seconds=20, told=Told())
            return await asyncio.gather(waiting, declined)

        outcome, _ = asyncio.run(both())
    ended_unstarted(party, "mercy refused: it could not begin")
    assert outcome == party.outcome
    party.close()
