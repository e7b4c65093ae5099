"""Tables of coefficients that several sites estimate together, from Newton's questions."""

import contextlib
import csv
import dataclasses
import io
import json
from functools import cache
from unittest import mock

import pytest
from tests.federation.hubs import admitted_study, proposed
from tests.federation.studies import PATH, make_study
from tests.federation.wire import check_ended, covers, dying_once, meet, open_accounts

from taciturn.algorithms import NEWTON
from taciturn.cli.main import main
from taciturn.errors import InputError
from taciturn.kernel.privacy import Gaussian
from taciturn.models import load_model
from taciturn.problems import NONE
from taciturn.regression import RegressionRequest, regression_table
from taciturn.training import train
from taciturn_federation import SignedProposal
from taciturn_federation.envelope import Kind
from taciturn_federation.reports import RunReport
from taciturn_verify import verify

TERMS = "ill ~ x0 + x1 + C(town)"
LOGISTIC = RegressionRequest(TERMS, "logistic")
KINDS = {
    "sum": {"observer": "sum"},
    "messages": {"epsilon": 30.0},
    "tree": {"observer": "sum", "network": PATH, "agents": 4},
    "robust": {"epsilon": 30.0, "regressed": LOGISTIC._replace(robust=True)},
}


def regressing(folder, *, rows=2000, **how):
    settings = {"regressed": LOGISTIC, "rounds": None, "epsilon": 8.0} | how
    return make_study(folder, rows=rows, **settings)


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    return cache(lambda kind: regressing(tmp_path_factory.mktemp(kind), **KINDS[kind]))


@cache
def of_one_machine(study, seed=7):
    """The table that `taciturn regress` has of the folder of the sites' files."""
    proposal = study.signed.proposal
    training = train(study.data, proposal, seed=seed, trace=False)
    return regression_table(proposal, training.plan, training.asked)


def report_of(hub, name):
    party = hub.parties[name]
    agent = None if name == "coordinator" else name
    plan = party.plan if agent is None else party._local.plan
    return RunReport(signed=hub.study.signed, plan=plan, outcome=party.outcome, score=None,
                     seconds=1.0, agent=agent)  # fmt: skip


def check_tables(hub, folder):
    """Every party ends with the table of one machine, to the bit, and a certificate that holds."""
    expected = of_one_machine(hub.study)
    assert expected.refused is None
    for name, party in hub.parties.items():
        assert party.outcome.ending == "finished", party.outcome.line
        report = report_of(hub, name)
        certificate = report.save(folder / f"out-{name}", force=False)
        assert (folder / f"out-{name}" / "coefficients.json").read_text() == expected.to_json()
        # every figure follows; only the sites know that a test has a seed
        verdict = "follows" if name == "coordinator" else "no guarantee"
        assert verify(json.loads(certificate.read_text())).verdict == verdict
    assert hub.answered_once()


@pytest.mark.parametrize("kind", KINDS)
def test_sites_end_with_the_table_of_one_machine_to_the_bit(studies, kind, tmp_path):
    hub = meet(studies(kind), tmp_path).run()
    check_tables(hub, tmp_path)
    out, report = tmp_path / "out-0", report_of(hub, 0)
    with (out / "coefficients.csv").open() as file:
        terms = [row["term"] for row in csv.DictReader(file)]
    assert terms == ["(intercept)", "x0", "x1", "town=b"]
    assert "tabular" in (out / "coefficients.tex").read_text()
    assert load_model(out / "model.json").labels == ("no", "yes")
    page = (out / "report.html").read_text()
    assert "estimated a regression from" in page
    assert "Coefficients" in page
    lines = report.lines(out / "certificate.json")
    assert any("std. error" in line for line in lines)
    assert f"Table: {out / 'coefficients.csv'}" in lines


@pytest.mark.slow
def test_every_party_is_killed_and_answers_once_and_the_table_is_the_same(studies, tmp_path):
    hub = meet(studies("sum"), tmp_path)
    deaths = dying_once(hub)
    hub.run(seconds=300)
    assert len(deaths) == 4
    check_tables(hub, tmp_path)


@pytest.mark.slow
def test_the_whole_run_is_on_the_account_before_the_first_answer_leaves(studies, tmp_path):
    study = studies("messages")
    accounts, statuses = open_accounts(study, guarantee=(40.0, 1e-2)), {}

    def watch(sender, receiver, packet):
        opened = study.signed.opener.open(packet.payload)
        if opened.kind == Kind.MESSAGE:
            (charged,) = accounts[sender].state().charged
            assert covers(accounts[sender], study, sender, range(8))
            statuses.setdefault(sender, charged.status)
        return [(0.0, packet)]

    hub = meet(study, tmp_path, spoil=watch, seed=None, accounts=accounts).run()
    assert statuses == dict.fromkeys(range(3), "opened")
    assert hub.endings() == {"finished"}
    assert [one.state().charged[0].status for one in accounts] == ["released"] * 3
    certificate = report_of(hub, 0).save(tmp_path / "out", force=False)
    assert verify(json.loads(certificate.read_text())).verdict == "follows"


def halving(party, integers=Gaussian.integers):
    """The planted fault: all noise that a party draws is halved."""
    receive = party.receive

    def halved(packet, now):
        half = mock.patch.object(Gaussian, "integers", lambda law, *of: integers(law, *of) // 2)
        with half:
            return receive(packet, now)

    party.receive = halved


@pytest.mark.slow
@pytest.mark.parametrize("observer", ["sum", "messages"])
def test_a_site_whose_noise_is_halved_sends_no_last_answer(tmp_path, observer):
    """With 8 coefficients a site draws 44 numbers in each of 8 rounds: enough for its own test."""
    terms = "ill ~ x0*x1 + x0*x2 + x1*x2 + C(town)"
    regressed = RegressionRequest(terms, "logistic")
    study = regressing(tmp_path, rows=40, observer=observer, regressed=regressed)
    hub = meet(study, tmp_path, seed=None)
    halving(hub.parties[1])
    hub.run()
    check_ended(hub, 1, "refused", "the noise that was drawn does not have the law and the scale")
    assert all(hub.outcome(name).model is None for name in hub.parties)
    assert (1, 7) not in hub.answers()


def propose(folder, *more, terms=("--formula", TERMS, "--family", "logistic"), code=0):
    """A proposal of sites of 20 records, by command; with another exit code, what was said."""
    out, studies = folder / "run.proposal", folder / "studies"
    given = ["study", "propose", "diabetes", "--epsilon=1", "--delta=1e-3", f"--out={out}",
             f"--studies={studies}", "--force", *terms, *more]  # fmt: skip
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        assert main(given) == code, said.getvalue()
    return SignedProposal.from_json(out.read_text()) if code == 0 else said.getvalue()


def test_a_coordinator_proposes_a_regression_as_taciturn_regress_asks_for_it(tmp_path):
    admitted_study(tmp_path, rows=10)
    proposal = propose(tmp_path, "--robust").proposal
    assert (proposal.method.name, proposal.rounds, proposal.clip) == (NEWTON, 9, 1.0)
    assert proposal.method.options == {"covariance": "robust"}
    assert proposal.data.features == "formula:x0 + x1 + C(town)"
    assert (proposal.loss.name, proposal.regulariser, proposal.centre) == ("logistic", NONE, False)
    every = propose(tmp_path, terms=("--family", "logistic")).proposal
    assert len(every.data.feature_map.effects) == 5  # every column, and the constant
    for more, words in (
        (("--quorum", "1"), "needs the answers of all sites"),
        (("--release-abandoned",), "no table to release"),
        (("--epsilon", "inf"), "within a budget"),
        (("--evaluate", "0.2"), "all records count"),
        (("--regulariser", "l2:0.1"), "no --regulariser"),
        (("--features", "bins:4"), "no --features"),
        (("--count", "town"), "leave one of the two out"),
        (("--family", "poisson"), "needs a number"),
        (("--cuts", "1,2"), "cuts are for survival times"),
        (("--formula", "ill ~ x9"), "x9"),
    ):
        assert words in propose(tmp_path, *more, code=2)
    assert "no --loss" in propose(tmp_path, terms=("--count", "town", "--loss", "huber"), code=2)
    every_product = ("--formula", "ill ~ x0*x1*x2*C(town)", "--family", "logistic")
    assert "too few for 16" in propose(tmp_path, "--only=mercy", terms=every_product, code=2)


def refused_by(folder, data, words, command=("site", "check")):
    """A site's own file does not fit: the command says why, and its account has no run."""
    given = [*command, str(folder / "run.proposal"), "--name=mercy", f"--data={data}",
             f"--sites={folder / 'sites'}", "--account=mercy"]  # fmt: skip
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        assert main(given) == 2
    assert words in said.getvalue()
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        assert main(["budget", "show", "mercy", "--json"]) == 0
    assert json.loads(shown.getvalue())["runs"] == []


def test_a_file_that_does_not_fit_is_refused_before_anything_is_charged(tmp_path):
    """Columns by the run itself; cells, whose faults are private, by the check of its owner."""
    _, (mercy, _) = admitted_study(tmp_path)
    propose(tmp_path)
    assert main(["budget", "open", "mercy", "--epsilon=2", "--delta=1e-2"]) == 0
    text = (tmp_path / "mercy.csv").read_text()
    other, lacking = tmp_path / "other.csv", tmp_path / "lacking.csv"
    lacking.write_text(text.replace("x1", "x9"))
    refused_by(tmp_path, lacking, "has no column 'x1'", ("site", "run", "--quiet"))
    refused_by(tmp_path, lacking, "has no column 'x1'")
    assert not mercy.journal.exists()
    other.write_text(text.replace(",a,", ",c,", 1))
    refused_by(tmp_path, other, "town")


@pytest.mark.slow
def test_a_category_that_is_not_declared_ends_the_run_and_only_its_owner_learns_of_it(tmp_path):
    study = regressing(tmp_path, rows=40)
    text = study.files[1].read_text()
    study.files[1].write_text(text.replace(",a,", ",c,", 1))
    hub = meet(study, tmp_path, seed=None).run()
    check_ended(hub, 1, "refused", "town")
    check_ended(hub, "coordinator", "abandoned", "sinai refused: a local error of this site")
    assert not any("town" in line for name in ("coordinator", 0, 2) for line in hub.lines[name])


def test_a_site_refuses_a_proposal_with_other_bounds_than_those_of_its_invitation(tmp_path):
    """As taciturn site check, run and serve do first; the same with its bounds is accepted."""
    study, (mercy, _) = admitted_study(tmp_path)
    assert mercy.take_part(proposed(study)) == 0
    table = study.invitation.table
    wider = table.columns[0].model_copy(update={"range": (-8.0, 8.0)})
    table = table.model_copy(update={"columns": (wider, *table.columns[1:])})
    invitation = study.invitation.model_copy(update={"table": table})
    other = proposed(dataclasses.replace(study, invitation=invitation), nonce="11")
    with pytest.raises(InputError, match="otherwise than the invitation"):
        mercy.take_part(other)
    assert not mercy.journal.exists()
