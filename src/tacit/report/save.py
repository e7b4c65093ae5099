"""Writing a report: whole or not at all."""

from __future__ import annotations

from pathlib import Path

from tacit.models import model_text
from tacit.report.folder import check_out, write_folder
from tacit.report.html import page
from tacit.report.results import curves, curves_text, oracle_metrics, results
from tacit.report.strict import json_text, strict
from tacit.training import Training, released

FILES = ("results.json", "proposal.json", "plan.json", "model.json", "report.html")
ORACLE, CURVES = "oracle_metrics.json", "curves.csv"


def save(training: Training, out: Path, *, force: bool, oracle: bool = False) -> None:
    """Write `FILES` into the folder `out`, and `CURVES` where test metrics may be shown.

    They are written whole or not at all, see `write_folder`. With `force` only these files are
    replaced, and the further files of an earlier report are deleted.

    Parameters
    ----------
    oracle
        Whether to write oracle_metrics.json too: metrics on private records, not for publication.

    Raises
    ------
    InputError
        As `check_out`, or if the files cannot be written.
    """
    check_out(out, force=force)
    texts = _texts(training, out)
    if oracle:
        texts[ORACLE] = json_text(oracle_metrics(training))
    write_folder(texts, out, force=force, obsolete=(ORACLE, CURVES))


def _texts(training: Training, out: Path) -> dict[str, str]:
    values = results(training, out)
    # the plan's own certificate has neither the conditions nor whether a seed was given
    certificate = training.certificate.to_dict()
    plan = {**training.plan.to_dict(), "certificate": certificate, "digest": training.plan.digest}
    shown = curves(training)
    return {
        "results.json": json_text({**values, "curves": shown}),
        "proposal.json": training.proposal.to_json() + "\n",
        "plan.json": json_text(strict(plan)),
        "model.json": model_text(released(training)),
        **({CURVES: curves_text(shown)} if shown else {}),
        "report.html": page(training),
    }
