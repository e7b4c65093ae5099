"""A study along a spanning tree: sums go up, the total comes down, and no server computes."""

import numpy as np
import pytest
from tests.federation.studies import make_study
from tests.federation.test_breaches import ended, seal_of
from tests.federation.test_parties import all_finished, model_of, said_once
from tests.federation.test_secure_sums import carried, on_disk, words
from tests.federation.wire import answers_seen, envelopes, meet, messages_of

from taciturn.engine import run
from taciturn.errors import InputError
from taciturn_federation.envelope import Kind
from taciturn_federation.exchange import TreeExchange
from taciturn_federation.envelope import Packet
from taciturn_federation.journal import Journal
from taciturn_federation.masks import Masking

__all__ = ["carried"]
PATH = {"network": "path"}
ROUNDS = 4
# who is below whom: 2 is the root of the path 0 - 1 - 2 - 3 - 4
BELOW = {0: [0], 1: [0, 1], 3: [3, 4], 4: [4]}


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    """Five owners on a path."""
    folder = tmp_path_factory.mktemp("tree")
    return make_study(folder, agents=5, network=PATH, rounds=ROUNDS)


@pytest.fixture(scope="session")
def masked(tmp_path_factory):
    """Five owners on a path, under masks."""
    folder = tmp_path_factory.mktemp("masked")
    return make_study(folder, agents=5, network=PATH, rounds=ROUNDS, observer="sum")


def other(body):
    """A body that differs in its last binary place, of numbers or words."""
    return bytes([body[0] ^ 1]) + body[1:]


def totals(hub, study):
    """The total of every round, as the witness saw it go down."""
    return {e.round: e.body for _, _, e in envelopes(hub, study, Kind.TOTAL)}


@pytest.mark.slow
def test_every_party_ends_with_the_model_of_one_machine_to_the_bit(tree, tmp_path):
    assert tree.signed.proposal.network.kind == "tree"
    hub = meet(tree, tmp_path)
    hub.run()
    all_finished(hub, tree)
    np.testing.assert_array_equal(hub.parties[4].outcome.model, model_of(tree, 7))
    assert said_once(hub, tree)
    assert hub.parties["coordinator"].ledger is not None
    subjects = {packet.subject.split(".", 2)[2] for _, packet in hub.seen}
    edges = {one for one in subjects if one.startswith("edge.")}
    assert edges == {f"edge.{a}.{b}" for a in range(5) for b in range(5) if abs(a - b) == 1}
    assert not any(one.startswith(("answer.", "public.")) for one in subjects)


def test_only_the_edges_of_the_tree_may_be_written(tmp_path):
    signed = make_study(tmp_path, agents=5, network={"network": "ring"}).signed
    assert [signed.neighbours(agent) for agent in range(5)] == [(1, 4), (0, 2), (1,), (4,), (0, 3)]


def test_under_masks_only_the_total_can_be_read_on_any_edge_or_disk(masked, tmp_path, carried):
    hub = meet(masked, tmp_path)
    hub.run()
    all_finished(hub, masked)
    np.testing.assert_array_equal(hub.parties[0].outcome.model, model_of(masked, 7))
    sent = {place: body for place, (body,) in answers_seen(hub, masked).items()}
    assert sent.keys() == {(agent, turn) for agent in BELOW for turn in range(ROUNDS)}
    plain = {(a, t): np.add.reduce([words(carried[b, t]) for b in below])
             for a, below in BELOW.items() for t in range(ROUNDS)}  # fmt: skip
    for place, body in sent.items():
        assert np.all(words(body) != plain[place])
    for turn, body in totals(hub, masked).items():
        whole = np.add.reduce([words(carried[agent, turn]) for agent in range(5)])
        np.testing.assert_array_equal(words(body), whole)
    for party in hub.parties.values():
        party._journal.close()
    hay = on_disk(tmp_path) + b"\0".join(packet.payload for _, packet in hub.seen)
    found = [*carried.values(), *(one.astype("<i8").tobytes() for one in plain.values())]
    assert not [body for body in found if body in hay]
    assert all(body in hay for body in (*sent.values(), *totals(hub, masked).values()))


@pytest.mark.slow
def test_without_masks_a_leaf_and_a_subtree_are_read_on_their_edges(
    masked, tmp_path, carried, monkeypatch
):
    """The planted fault: words are counted on to be masked, and are not."""
    watched = Masking.mask

    def plain(self, turn, heard, body):
        watched(self, turn, heard, body)
        return body

    monkeypatch.setattr(Masking, "masked", plain)
    hub = meet(masked, tmp_path)
    hub.run()
    sent = answers_seen(hub, masked)
    assert sent[0, 0] == {carried[0, 0]}
    both = words(carried[0, 0]) + words(carried[1, 0])
    assert sent[1, 0] == {both.astype("<i8").tobytes()}


@pytest.mark.slow
@pytest.mark.parametrize("asked", [
    {"centre": True},
    {"precision": "float32", "observer": "sum", "network": {"network": "star"}},
    {"algorithm": "dp-admm", "network": {"network": "complete"}},
    {"evaluate": 0.2, "rounds": 3},
], ids=["centre", "float32", "dp-admm", "evaluate"])  # fmt: skip
def test_whatever_runs_along_a_tree_ends_as_on_one_machine(tmp_path, asked):
    study = make_study(tmp_path, **{"agents": 5, "network": PATH, "rounds": ROUNDS} | asked)
    assert study.signed.proposal.network.kind == "tree"
    hub = meet(study, tmp_path)
    hub.run()
    all_finished(hub, study)
    assert (hub.parties[0].outcome.centre is not None) == bool(asked.get("centre"))
    assert (hub.parties[0].outcome.totals is not None) == bool(asked.get("evaluate"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["masked", "tree"])
def test_killed_in_any_round_every_node_goes_on_where_it_was(name, request, tmp_path):
    study = request.getfixturevalue(name)
    hub, deaths = meet(study, tmp_path), []

    def dies(who):
        """Every party dies once, just after it wrote something, before it could say so."""
        if who in deaths or hub.parties[who].progress().round < len(deaths) // 2:
            return False
        deaths.append(who)
        return True

    hub.after = dies
    hub.run()
    assert set(deaths) == {"coordinator", *range(5)}
    all_finished(hub, study)
    assert said_once(hub, study)
    assert len({e.body for _, _, e in envelopes(hub, study, Kind.TOTAL)}) == ROUNDS - 1


@pytest.mark.slow
@pytest.mark.parametrize("victim", range(5))
def test_a_node_that_is_killed_over_and_over_loses_nothing(masked, tmp_path, victim):
    hub, lives = meet(masked, tmp_path), []

    def dies(who):
        if who != victim or len(lives) > 12:
            return False
        lives.append(hub.parties[who].progress().round)
        return True

    hub.after = dies
    hub.run(seconds=200)
    assert len(lives) > 12
    all_finished(hub, masked)
    assert said_once(hub, masked)


@pytest.mark.slow
def test_a_total_that_could_not_be_written_is_handed_on_once_there_is_room(
    tree, tmp_path, monkeypatch
):
    tries, say = [], Journal.put

    def full(journal, digest, what, content):
        if what == "handed.1" and len(tries) < 2:
            tries.append(journal.file.name)
            raise InputError("no room")
        return say(journal, digest, what, content)

    monkeypatch.setattr(Journal, "put", full)
    hub = meet(tree, tmp_path)
    hub.run()
    assert len(tries) == 2
    all_finished(hub, tree)


@pytest.mark.slow
def test_a_coordinator_that_lost_everything_is_told_the_end_again(masked, tmp_path):
    hub = meet(masked, tmp_path)
    hub.run(until=lambda: hub.parties[2].progress().round >= 3)
    hub.die("coordinator")
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"coordinator.journal{suffix}").unlink(missing_ok=True)
    hub.join("coordinator", hub.makers["coordinator"])
    hub.run()
    all_finished(hub, masked)
    assert said_once(hub, masked)


# planted faults


def spoilt_total(study, turn, *, by, to):
    """A wire on which one node is told another total, signed by a node that lies."""

    def spoil(sender, receiver, packet):
        if ".edge." in packet.subject and receiver == to:
            envelope = study.signed.opener.open(packet.payload)
            if envelope.kind == Kind.TOTAL and envelope.round == turn:
                body, seal = other(envelope.body), seal_of(study, by)
                sealed = seal.seal(Kind.TOTAL, turn, body, transcript=envelope.transcript)
                return [(0.0, packet._replace(payload=sealed))]
        return [(0.0, packet)]

    return spoil


@pytest.mark.slow
def test_a_node_cannot_hand_on_another_total_than_the_root_signed(tree, tmp_path):
    hub = meet(tree, tmp_path, spoil=spoilt_total(tree, 1, by=1, to=0))
    hub.run()
    ended(hub, 0, "refused", "sinai sent a message of round 1, which it has none of")
    assert hub.parties["coordinator"].outcome.ending == "abandoned"


@pytest.mark.slow
def test_a_root_that_tells_branches_different_totals_is_found_out(tree, tmp_path):
    hub = meet(tree, tmp_path, spoil=spoilt_total(tree, 1, by=2, to=3))
    hub.run()
    outcome = hub.parties["coordinator"].outcome
    assert outcome.ending == "abandoned"
    assert "lariboisiere, guys received something else than was published" in outcome.line
    assert {party.outcome.model for party in hub.parties.values()} == {None}


@pytest.mark.slow
def test_under_masks_branches_that_were_told_different_totals_open_nothing(
    masked, tmp_path, carried
):
    hub = meet(masked, tmp_path, spoil=spoilt_total(masked, 1, by=2, to=3))
    hub.run()
    ended(hub, 2, "refused", "the masks do not cancel")
    assert totals(hub, masked).keys() == {0, 1}
    below = [np.add.reduce([words(b) for b in answers_seen(hub, masked)[a, 2]]) for a in (1, 3)]
    plain = np.add.reduce([words(carried[agent, 2]) for agent in (0, 1, 3, 4)])
    assert np.all(np.add.reduce(below) != plain)


def test_a_node_that_leaves_out_what_is_below_it_ends_the_run_without_a_model(
    masked, tmp_path, monkeypatch
):
    added = TreeExchange.outgoing

    def leaving_out(self, message, bodies):
        if self.agent == 1:
            return message
        return added(self, message, bodies)

    monkeypatch.setattr(TreeExchange, "outgoing", leaving_out)
    hub = meet(masked, tmp_path)
    hub.run()
    ended(hub, 2, "refused", "the masks do not cancel")
    assert hub.parties["coordinator"].outcome.model is None


@pytest.mark.slow
def test_a_node_that_says_two_things_in_a_round_is_refused(tree, tmp_path):
    hub = meet(tree, tmp_path)
    hub.run(until=lambda: hub.parties[1].progress().round >= 3)
    said = next(e for e in messages_of(hub, tree) if (e.sender, e.round) == (0, 1))
    sealed = seal_of(tree, 0).seal(
        Kind.MESSAGE, 1, other(said.body), transcript=said.transcript
    )
    hub.tell(1, Packet(tree.signed.subjects.edge(0, 1), sealed))
    ended(hub, 1, "refused", "mercy sent round 1 twice with different content")


@pytest.mark.slow
def test_a_root_that_ends_with_another_model_than_its_heads_say_gives_none(tree, tmp_path):
    """It tells the sites another end than the coordinator."""
    hub = meet(tree, tmp_path)

    def shown(sender, receiver, packet):
        if sender == 2 and receiver == 4 and ".state." in packet.subject:
            envelope = tree.signed.opener.open(packet.payload)
            if envelope.kind == Kind.FINAL:
                seal, body = seal_of(tree, 2), other(envelope.body)
                sealed = seal.seal(
                    Kind.FINAL, ROUNDS, body, transcript=envelope.transcript
                )
                return [(0.0, packet._replace(payload=sealed))]
        return [(0.0, packet)]

    hub.spoil = shown
    hub.run()
    outcome = hub.parties["coordinator"].outcome
    assert (outcome.ending, outcome.model) == ("abandoned", None)
    assert "guys received something else" in outcome.line


@pytest.mark.slow
def test_noise_of_the_system_differs_between_runs_and_gives_one_answer_a_round(masked, tmp_path):
    hub = meet(masked, tmp_path, seed=None)
    hub.run()
    all_finished(hub, masked, seed=None)
    assert said_once(hub, masked)
    seeded = run(
        masked.signed.proposal.plan(), masked.data.shards("float64"), runtime="simulate", seed=7
    )
    assert np.all(seeded.model != hub.parties[0].outcome.model)
