"""A site that was killed goes on with the division of its first start, which nobody else learns."""

from unittest import mock

import pytest
from tests.federation.studies import make_study
from tests.federation.wire import KilledError, meet

from taciturn_federation.journal import Journal
from taciturn_federation.local import Local
from taciturn_federation.site import Site

ROUNDS = 3


def killed_at(moments, died):
    """Return `Journal` methods that end the process of site1 at each of these moments once."""
    add, set_phase, say = Journal.add, Journal.set_phase, Journal.put

    def dies(journal, moment):
        if "site1" in journal.file.name and moment in moments and moment not in died:
            died.append(moment)
            raise KilledError

    def adding(journal, digest, sent):
        dies(journal, ("before", sent.round))
        add(journal, digest, sent)
        dies(journal, ("after", sent.round))

    def phase(journal, digest, name, **how):
        set_phase(journal, digest, name, **how)
        dies(journal, ("after", name))

    def saying(journal, digest, what, content):
        kept = say(journal, digest, what, content)
        dies(journal, ("after", what))
        return kept

    return mock.patch.multiple(Journal, add=adding, set_phase=phase, say=saying)


def divisions_of(study, folder, moments):
    """Return the rows that each site trained on and held out at each of its starts, and deaths."""
    seen, died = {}, []
    own, hub = Local.records, None

    def noted(local, draw):
        data, agent = own(local, draw), local.agent
        sides = (data.owners[0], data.held_out[0])
        if data.persons is not None:
            sides = map(data.persons.places, sides)
        seen.setdefault(agent, []).append(tuple(tuple(side.tolist()) for side in sides))
        return data

    with killed_at(moments, died), mock.patch.object(Local, "records", noted):
        hub = meet(study, folder, seed=None)
        hub.run()
    assert {party.outcome.ending for party in hub.parties.values()} == {"finished"}
    return seen, died, hub


MOMENTS = (("before", 0), ("after", 1), ("before", ROUNDS), ("after", ROUNDS))


@pytest.mark.parametrize(("first", "persons"), [("running", None), ("division", 1)])
def test_a_site_that_is_killed_again_and_again_never_divides_its_records_anew(
    tmp_path, first, persons
):
    how = {} if persons is None else {"rows_per_person": persons, "algorithm": "noisy-gradient"}
    study = make_study(tmp_path, evaluate=0.2, rounds=ROUNDS, **how)
    moments = (("after", first), *MOMENTS)
    seen, died, hub = divisions_of(study, tmp_path, moments)
    assert set(died) == set(moments)
    assert max(map(len, seen.values())) >= len(MOMENTS)
    for starts in seen.values():
        assert len(set(starts)) == 1
        assert not set(starts[0][0]) & set(starts[0][1]) - {-1}
    said = b"".join(packet.payload for _, packet in hub.seen)
    sites = [party for party in hub.parties.values() if isinstance(party, Site)]
    keys = {party._journal.get(study.signed.digest, "division") for party in sites}
    assert len(keys) == len(sites) == 3
    for key in keys:
        assert key not in said
        assert key.hex().encode() not in said


def test_a_site_that_draws_anew_at_every_start_is_caught(tmp_path):
    """Planted fault: the draw is not kept."""
    study = make_study(tmp_path, evaluate=0.2, rounds=ROUNDS)
    say = Journal.put

    def forgetful(journal, digest, what, content):
        return content if what == "division" else say(journal, digest, what, content)

    with mock.patch.object(Journal, "put", forgetful):
        seen, died, _ = divisions_of(study, tmp_path, (("before", ROUNDS),))
    assert died
    assert any(len(set(starts)) > 1 for starts in seen.values())
