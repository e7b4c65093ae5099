"""A run among parties is the run on one machine, whatever the wire and the processes do."""

import numpy as np
import pytest
from tests.federation.faults import RUNS, SPECIAL, WIRE, make_studies, run_seed
from tests.federation.studies import PATH, RING, kinds, make_study
from tests.federation.wire import (
    KilledError,
    check_finished,
    dying_once,
    forgetting,
    full_at,
    lose_journal,
    maker_of,
    meet,
    model_of,
    open_accounts,
    signer_of,
    words,
)

from taciturn.errors import InputError
from taciturn.training import StructureRequest
from taciturn_federation import Journal
from taciturn_federation import journal as journal_module
from taciturn_federation.envelope import Kind
from taciturn_federation.inbox import NOT_STARTED
from taciturn_federation.transport import DecliningSite

METHODS = [
    {"algorithm": "dp-admm"},
    {"algorithm": "linearised-admm", "options": {"local_updates": 3}},
    {"algorithm": "sadmm", "structure": StructureRequest(structure="lasso")},
    {"algorithm": "noisy-gradient", "centre": True},
    {"algorithm": "recal", "network": RING | {"walk": "random", "cap": 3}, "rounds": 9},
    {
        "algorithm": "recal",
        "network": RING,
        "rounds": 9,
        "epsilon": 2.0,
        "agent_epsilons": (2.0, 0.5, 1.0),
    },
    {
        "algorithm": "noisy-gradient",
        "evaluate": 0.2,
        "epsilon": 2.0,
        "agent_epsilons": (1.0, 0.5, 2.0),
    },
    {"algorithm": "OutL", "rounds": 2, "epsilon": 2.0, "agent_epsilons": (2.0, 1.0, 0.5)},
    {"algorithm": "ic-admm", "network": RING},
    {"algorithm": "extra", "network": RING},
    # along a tree
    {"network": PATH, "centre": True, "agents": 5},
    {"network": {"network": "star"}, "observer": "sum", "precision": "float32", "agents": 5},
    {"network": {"network": "complete"}, "algorithm": "dp-admm", "agents": 5},
]


def test_every_party_ends_with_the_model_of_one_machine(star, tmp_path):
    check_finished(meet(star, tmp_path).run())


@kinds("ring", slow=("relay", "tree"))
def test_no_message_passes_the_coordinator_on_a_network(study, tmp_path):
    """Nor does one leave the edges of the network; and every party ends with the same model."""
    hub = meet(study, tmp_path).run()
    check_finished(hub)
    subjects = {packet.subject.split(".", 2)[2] for _, packet in hub.seen}
    edges = {one for one in subjects if one.startswith("edge.")}
    neighbours = [(a, b) for a in range(study.agents) for b in study.signed.neighbours(a)]
    assert edges <= {f"edge.{a}.{b}" for a, b in neighbours}
    assert not any(one.startswith(("answer.", "public.")) for one in subjects)
    assert not any(".edge." in one for one in hub.parties["coordinator"].subjects)
    if study.signed.proposal.network.kind == "tree":
        np.testing.assert_array_equal(hub.outcome(4).model, model_of(study, 7))
        assert len(edges) == 2 * (study.agents - 1)


@pytest.mark.slow
@pytest.mark.parametrize("how", METHODS, ids=lambda how: how.get("algorithm", "tree"))
def test_every_sound_method_runs_among_parties_as_on_one_machine(tmp_path, how):
    study = make_study(tmp_path, **({"rounds": 4} | how))
    hub = meet(study, tmp_path).run()
    check_finished(hub)
    assert (hub.outcome(0).centre is not None) == bool(how.get("centre"))


def test_a_round_that_all_sites_missed_is_repeated_once_for_all_of_them(star, tmp_path):
    """Repeated for each, A late sites would bring A^2 messages, and be later still."""
    lost = []

    def spoil(sender, receiver, packet):
        envelope = star.signed.opener.open(packet.payload)
        if envelope.kind == Kind.PUBLIC and envelope.round == 2 and hub.now < 5:
            lost.append(receiver)
            return []
        # every late answer resets the coordinator's timer
        return [(0.3 * receiver, packet)] if receiver in (1, 2) else [(0.0, packet)]

    hub = meet(star, tmp_path, spoil=spoil)
    check_finished(hub.run())
    sent = [one for _, one in hub.envelopes(Kind.PUBLIC) if one.round == 2]
    assert set(lost) == {0, 1, 2}
    assert len(sent) <= 12, "at most two a second, for all requests together"


def test_messages_of_a_site_are_as_long_whatever_records_and_noise_are(tmp_path):
    asked = {"agents": 2, "rows": 30, "evaluate": None, "rounds": 3}
    studies = [
        make_study(tmp_path / name, patience=patience, **asked)
        for name, patience in (("usual", 30.0), ("other", 31.0))  # or it were the same run
    ]
    numbers = ("4", "-4.000000000000", "1e-300", '" 0.5"', "-0", "+3.9999999999999999")
    for number, file in enumerate(studies[1].files):
        # as many records, in longer and shorter texts and all of one class
        rows = [",".join([*(numbers[(row + k) % 6] for k in range(3)), "a", "yes"])
                for row in range(30 + 3 * number)]  # fmt: skip
        file.write_text("\n".join(["x0,x1,x2,town,ill", *rows]) + "\n")
    seen = []
    for name, study in zip(("usual", "other"), studies, strict=True):
        hub = meet(study, tmp_path / name, seed=None).run()
        assert hub.endings() == {"finished"}
        front = f"{study.signed.study}.{study.signed.subjects.run}."
        seen.append({
            (sender, packet.subject.removeprefix(front), len(packet.payload))
            for sender, packet in hub.seen
        })  # fmt: skip
    assert len(seen[0]) > 10
    assert seen[0] == seen[1]


# processes that are killed, and disks that are full


@kinds("star", slow=("ring", "relay", "summed", "tree", "masked_tree", "evaluated_sums"))
def test_killed_in_any_round_every_party_goes_on_where_it_was(study, tmp_path):
    seed = None if study.signed.proposal.evaluation else 7
    hub = meet(study, tmp_path, seed=seed)
    deaths = dying_once(hub, slowness=2 if study.agents == 5 else 1)
    hub.run()
    assert set(deaths) == {"coordinator", *range(study.agents)}
    check_finished(hub, seed)
    if study.agents == 5:
        totals = {envelope.body for _, envelope in hub.envelopes(Kind.TOTAL)}
        assert len(totals) == study.signed.proposal.rounds - 1


@kinds("star", slow=("evaluated",))
def test_killed_while_it_writes_a_site_gives_one_answer_and_no_other(study, tmp_path, monkeypatch):
    """Before and after the write; of the evaluation, too, which is round 3."""
    add, killed = Journal.add, []
    turn = 3 if study.signed.proposal.evaluation else 2

    def dying(journal, digest, row):
        if len(killed) < 2 and row.round == turn:
            killed.append(row)
            if len(killed) == 2:
                add(journal, digest, row)
            raise KilledError
        add(journal, digest, row)

    monkeypatch.setattr(Journal, "add", dying)
    hub = meet(study, tmp_path, seed=None).run()
    check_finished(hub, seed=None)
    assert len(killed) == 2


@kinds("star", slow=("summed",))
def test_a_journal_that_forgets_is_seen_by_the_witness(study, tmp_path, monkeypatch):
    """The planted fault of the tests above: noise is drawn again for an answered round."""
    hub = meet(study, tmp_path, seed=None).run_to(3, 0)
    forgetting(hub, tmp_path, 0, monkeypatch)
    assert not hub.answered_once()
    if study.signed.proposal.budget.observer == "sum":
        # two messages under one stream differ by noise alone: far from uniform words
        first, again = (words(body) for body in hub.answers()[0, 0])
        assert np.all(np.abs(first - again) < 2**40)


@kinds(slow=("star", "summed", "masked_tree"))
def test_a_coordinator_that_lost_everything_has_the_rounds_sent_again(study, tmp_path):
    hub = meet(study, tmp_path).run_to(3, 2)
    hub.kill("coordinator")
    lose_journal(tmp_path, "coordinator")
    hub.join("coordinator")
    check_finished(hub.run())


def test_a_coordinator_killed_after_the_end_sends_it_to_all_who_missed_it(ring, tmp_path):
    """The heads are lost on the way to one site, and then the coordinator dies."""
    hub = meet(ring, tmp_path)
    hub.spoil = lambda sender, receiver, packet: (
        [] if receiver == 2 and hub.outcome("coordinator") is not None else [(0.0, packet)]
    )
    hub.run(until=lambda: hub.outcome(0) is not None)
    hub.spoil = lambda sender, receiver, packet: [(0.0, packet)]
    hub.restart("coordinator")
    check_finished(hub.run())


@kinds("star", slow=("summed", "evaluated_sums"))
def test_a_full_disk_stops_an_answer_and_the_same_one_is_sent_when_there_is_room(
    study, tmp_path, monkeypatch
):
    tries = full_at(monkeypatch, 3)
    hub = meet(study, tmp_path, seed=None).run()
    check_finished(hub, seed=None)
    assert len(tries) == 3
    assert {row.message for row in tries} == {tries[0].message}
    assert any("cannot be written" in line for line in hub.lines[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "name", "party"), [("star", "public.3", "coordinator"), ("tree", "forwarded.1", 1)],
    indirect=["study"],
)  # fmt: skip
def test_a_value_that_could_not_be_written_is_sent_once_there_is_room(
    study, name, party, tmp_path, monkeypatch
):
    tries, put = [], Journal.put

    def full(journal, digest, what, content):
        if what == name and len(tries) < 2:
            tries.append(what)
            raise InputError("the journal cannot be written (database or disk is full)")
        return put(journal, digest, what, content)

    monkeypatch.setattr(Journal, "put", full)
    hub = meet(study, tmp_path).run()
    assert len(tries) == 2
    check_finished(hub)
    assert any("cannot be written" in line for line in hub.lines[party])


@pytest.mark.slow
def test_a_head_that_could_not_be_written_once_ends_no_run(summed, tmp_path, monkeypatch):
    write, tries = journal_module.write_head, []

    def full(file, link, **how):
        content = link.content
        if content.get("kind") == "round" and content["round"] == 1 and not tries:
            tries.append(link)
            raise OSError(28, "No space left on device")
        return write(file, link, **how)

    monkeypatch.setattr(journal_module, "write_head", full)
    hub = meet(summed, tmp_path).run(seconds=150)
    assert tries
    check_finished(hub)


# before the start


def check_unstarted(party, text):
    assert party.outcome.ending == "abandoned"
    assert text in party.outcome.line
    assert party.outcome.line.endswith(NOT_STARTED)
    assert not party.needed


def test_a_site_that_never_comes_ends_the_waiting_and_all_can_try_again(star, tmp_path):
    accounts = open_accounts(star)
    hub = meet(star, tmp_path, seed=None, accounts=accounts, sites=[0, 1]).run(seconds=29)
    assert hub.outcome("coordinator") is None
    hub.run(seconds=20)
    for name in ("coordinator", 0, 1):
        check_unstarted(hub.parties[name], "charite did not accept for 30 s")
    assert [run.status for run in accounts[0].state().runs] == ["returned"]
    assert hub.parties[0]._journal.run(star.signed.digest).phase == "accepted"
    (old, *_) = [one for _, one in hub.envelopes(Kind.END)]
    hub.join(2, maker_of(hub, 2, tmp_path, seed=None, accounts=accounts))
    hub.restart("coordinator", 0, 1)
    hub.run_to(2, 0)
    # a hub could keep the end of the earlier attempt and deliver it again
    hub.deliver(0, star.signed.subjects.proposal, old.payload)
    assert hub.outcome(0) is None
    check_finished(hub.run(), seed=None)
    assert [run.status for run in accounts[0].state().runs] == ["returned", "released"]


def test_patience_starts_again_with_every_site_that_comes(star, tmp_path):
    hub = meet(star, tmp_path, sites=[0])
    for agent in (1, 2):
        hub.run(seconds=25)
        assert hub.outcome("coordinator") is None
        hub.join(agent, maker_of(hub, agent, tmp_path))
    check_finished(hub.run())


def test_a_site_that_cannot_begin_ends_the_waiting_at_once_and_all_can_try_again(star, tmp_path):
    hub = meet(star, tmp_path, sites=[0, 2])
    hub.join(1, lambda: DecliningSite(star.signed, 1, star.keys[1]))
    hub.run(seconds=5)
    for name in ("coordinator", 0, 2):
        check_unstarted(hub.parties[name], "sinai refused: it could not begin")
    assert hub.outcome(1).ending == "refused"
    del hub.parties[1]
    hub.join(1, maker_of(hub, 1, tmp_path))
    hub.restart("coordinator", 0, 2)
    check_finished(hub.run())


def test_the_start_has_a_patience_that_names_who_is_missing_whatever_that_of_the_run_is(
    tmp_path,
):
    study = make_study(tmp_path, patience=3600.0, start_patience=20.0)
    hub = meet(study, tmp_path, sites=[0, 2]).run(seconds=35)
    for name in ("coordinator", 0, 2):
        check_unstarted(hub.parties[name], "sinai did not accept for 20 s")
    hub.restart(0)
    hub.kill("coordinator")
    hub.run(seconds=45)
    check_unstarted(hub.parties[0], "no message of registry arrived for 40 s")


def test_sites_without_a_coordinator_give_up_and_can_try_again(star, tmp_path):
    accounts = open_accounts(star)
    hub = meet(star, tmp_path, seed=None, accounts=accounts)
    hub.queue = []
    hub.kill("coordinator")
    hub.run(seconds=59)
    assert hub.outcome(0) is None
    hub.run(seconds=3)
    for agent in range(3):
        check_unstarted(hub.parties[agent], "no message of registry arrived for 60 s")
    assert not accounts[1].state().charged
    hub.restart("coordinator", 0, 1, 2)
    check_finished(hub.run(), seed=None)


def test_a_site_waits_as_long_as_messages_of_the_coordinator_arrive(tmp_path):
    study = make_study(tmp_path, patience=5.0)
    hub = meet(study, tmp_path, sites=[0])
    longer = study.signed.model_copy(update={"patience": 1000.0, "start_patience": 1000.0})
    hub.parties["coordinator"].signed = longer
    hub.run(seconds=60)
    assert hub.outcome(0) is None


@pytest.mark.parametrize("values", [{"line": "x", "started": False}, {"line": "no"}])
def test_a_refusal_ends_a_run_under_way_unless_it_is_one_to_begin(star, tmp_path, values):
    """A second process, or a command with another file, refuses to begin beside a run."""
    hub = meet(star, tmp_path).run_to(2)
    refusal = signer_of(star, 1).seal_values(Kind.REFUSAL, 0, values)
    hub.deliver("coordinator", star.signed.subjects.state(1), refusal)
    if "started" in values:
        check_finished(hub.run())
        return
    hub.run(seconds=5)
    hub.restart("coordinator", 0)
    assert hub.outcome("coordinator").line == "sinai refused: no"
    assert hub.outcome(0).ending == "abandoned"


@pytest.mark.slow
def test_under_masks_the_key_outlives_an_attempt_that_did_not_start(summed, tmp_path):
    hub = meet(summed, tmp_path, sites=[0, 1]).run(seconds=50)
    check_unstarted(hub.parties[0], "charite did not accept")
    hub.join(2, maker_of(hub, 2, tmp_path))
    hub.restart("coordinator", 0, 1)
    check_finished(hub.run())


# faults at random


@pytest.mark.slow
def test_under_random_faults_every_run_ends_as_it_should(tmp_path, monkeypatch):
    """A tenth of the seeds; `make soak` runs them all."""
    studies, happened = make_studies(tmp_path), set()
    for seed in [11 * k % RUNS for k in range(RUNS // 10)]:
        folder = tmp_path / str(seed)
        folder.mkdir()
        monkeypatch.setenv("TACITURN_STATE_DIR", str(folder / "state"))
        monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
        happened |= set(run_seed(studies, folder, seed).happened)
    assert {*WIRE, *SPECIAL} <= happened
