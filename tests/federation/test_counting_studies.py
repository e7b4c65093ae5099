"""Tables that several sites count together, from masked sums or single messages."""

import json

import pytest
from tests.federation.hubs import admitted_study
from tests.federation.studies import make_study
from tests.federation.wire import check_finished, meet

from taciturn.cli.main import main
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.reports import RunReport
from taciturn_verify import verify

TABLES = "cells:x0(-1,0,1) + town | ill"


@pytest.mark.parametrize("observer", ["sum", "messages"])
def test_sites_count_together_as_one_machine_and_report_the_tables(observer, tmp_path):
    study = make_study(
        tmp_path, algorithm="counts", rounds=1, features=TABLES, observer=observer, epsilon=8.0
    )
    hub = meet(study, tmp_path).run()
    check_finished(hub)
    site = hub.parties[0]
    report = RunReport(
        signed=study.signed, plan=site._local.plan, outcome=site.outcome, score=None, seconds=1.0,
        agent=0,
    )  # fmt: skip
    certificate = report.save(tmp_path / "out", force=False)
    # every figure follows, and the seed of a test is known
    assert verify(json.loads(certificate.read_text())).verdict == "no guarantee"
    found = json.loads((tmp_path / "out" / "counts.json").read_text())
    records = sum(study.signed.proposal.counts)
    assert [table["totals"][2] for table in found["tables"]] == [records, records]
    assert found["tables"][0]["totals"] == found["tables"][1]["totals"]
    assert not (tmp_path / "out" / "model.json").exists()
    assert "Characteristics by ill" in (tmp_path / "out" / "report.html").read_text()
    assert any(line.startswith("Tables: ") for line in report.lines(certificate))


def test_a_coordinator_proposes_tables_by_their_text(tmp_path):
    admitted_study(tmp_path)
    out, studies = tmp_path / "run.proposal", tmp_path / "studies"
    given = ["study", "propose", "diabetes", "--epsilon=1", "--delta=1e-3", f"--out={out}"]
    tables = ["--count=x0(-1,1) | ill", "--count=town"]
    assert main([*given, *tables, f"--studies={studies}"]) == 0
    proposal = SignedProposal.from_json(out.read_text()).proposal
    assert proposal.method.name == "counts"
    assert proposal.data.features == "cells:x0(-1,1) | ill; town"
    assert [block.cells for block in proposal.data.feature_map.blocks] == [6, 2]
