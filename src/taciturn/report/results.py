"""The results of a training as plain values that strict JSON can express."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

import taciturn
from taciturn.audit import pairwise_mu
from taciturn.certificates import document_of
from taciturn.engine import Plan
from taciturn.kernel.privacy import Certificate, epsilon_of
from taciturn.report.accounts import charged_values
from taciturn.tables import Table
from taciturn.training import Proposal, Training, network_values

ORACLE_WARNING = (
    "oracle metrics: computed from private records without noise and outside the certificate; do "
    "not publish this file"
)

PLAN_FORMAT = "taciturn plan 1"

# with more agents pairs are not computed, since their number grows with the square
_MOST_PAIRED = 1_000

CERTIFIED = (
    "epsilon", "delta", "mu", "relation", "unit", "record", "observer", "trust", "reproduction",
    "attacker_tpr",
)  # fmt: skip


def results(training: Training, out: Path | None) -> dict[str, Any]:
    """Return the results of a training as strictly valid JSON values.

    `error` names the error: a fraction in [0, 1], or for a regression the root mean squared error
    in the units of the target; `assessment` is a `taciturn.training.Assessment`. `epsilon`, `delta`
    and `mu` are the certified totals of the whole run, infinite ones the text "infinity".
    `seconds` is wall time, `out` the folder of the report, if one was written.

    **Guarantee.** Metrics are functions of records without noise (oracle metrics), outside the
    certificate. They are given for published data only; for a user's table only those on test
    records that the user declares public. All others are None; see `oracle_metrics`.
    """
    certificate, dataset = training.certificate, training.dataset
    score, last = training.private_score, training.evaluation
    between = between_agents(training)
    values = {
        "algorithm": training.proposal.method.name,
        "loss": str(training.proposal.clipped_loss),
        "clip": training.proposal.clip,
        "data": dataset.name,
        "agents": len(training.proposal.counts),
        **counted(training.proposal),
        "rounds": training.plan.rounds,
        **{name: getattr(certificate, name) for name in CERTIFIED},
        **agent_values(training.proposal, certificate),
        "conditions": certificate.conditions,
        "account": charged_values(training.charged),
        **network_values(training.proposal, training.plan),
        **({} if between is None else {"between_agents": between}),
        "conditional": training.proposal.conditional,
        "error": error_name(training),
        **_metrics(training),
        "private_score": None if score is None else score.to_dict(),
        # the noised answers of an evaluation that gave no score
        **({} if last is None or last.score is not None else {"private_totals": last.totals}),
        "seconds": training.seconds,
        "out": None if out is None else str(out),
        "split_seed": training.proposal.split_seed,
        "warnings": training.all_warnings,
        "failures": training.failures,
        "proposal": training.proposal.digest,
        "plan": training.plan.digest,
        "version": taciturn.__version__,
    }
    return dict(strict(values))


def agent_values(proposal: Proposal, certificate: Certificate) -> dict[str, Any]:
    """Return the certified epsilon of each agent, if agents have budgets of their own."""
    each = certificate.per_agent_epsilon
    return {} if proposal.budget.agent_epsilons is None else {"per_agent_epsilon": each}


def counted(proposal: Proposal) -> dict[str, Any]:
    """Return the number of records; or that of persons, since their numbers of rows are private."""
    rows = proposal.budget.rows_per_person
    if rows is None:
        return {"records": proposal.units}
    return {
        "persons": proposal.units,
        "rows_per_person": rows,
        "agents_per_person": proposal.budget.agents_per_person,
    }


def curves(training: Training) -> dict[str, list[float]]:
    """Return test error and test loss after every round; {} if they may not be shown."""
    return dict(strict(training.curves)) if training.shows_test else {}


def curves_text(shown: dict[str, list[float]]) -> str:
    """Return `curves` as CSV, a line for each round."""
    rows = zip(*shown.values(), strict=True)
    lines = [",".join([str(number), *map(repr, row)]) for number, row in enumerate(rows, start=1)]
    return "\n".join([",".join(["round", *shown]), *lines]) + "\n"


def _metrics(training: Training) -> dict[str, Any]:
    """Return the metrics, None where they may not be shown."""
    measured, public = training.metrics, training.dataset.public
    best = training.nonprivate if public else None
    tested = public or training.shows_test
    values = {
        "test_error": measured.test_error if tested else math.nan,
        "test_loss": measured.test_loss if tested else math.nan,
        "train_loss": measured.train_loss if public else math.nan,
        "nonprivate_test_error": math.nan if best is None else best.test_error,
        "nonprivate_test_loss": math.nan if best is None else best.test_loss,
    }
    beside = best.assessment if best is not None and training.shows_test else None
    pairs = {"assessment": training.assessment, "nonprivate_assessment": beside}
    return {
        **{name: None if math.isnan(value) else value for name, value in values.items()},
        **{name: None if found is None else found.to_dict() for name, found in pairs.items()},
    }


def between_agents(training: Training) -> dict[str, Any] | None:
    """Return the least and the largest mu and epsilon between two agents (`pairwise_mu`).

    None if nothing beyond the certificate can be stated: all agents receive one public value, the
    run is not private, answers have no mu, several candidates were trained (neighbours received the
    messages of all), records were dealt at random, or there are more than 1,000 agents.
    """
    plan, certificate = training.plan, training.certificate
    several = training.choice is not None or plan.spec.agents > _MOST_PAIRED
    if several or plan.spec.dealt:
        return None
    private = math.isfinite(certificate.epsilon) and not certificate.reproduction
    network = plan.program.network
    if (network.together and network.inbox_axis is None) or not plan.ledger.has_mu or not private:
        return None
    pairs = pairwise_mu(plan, released=False)
    apart = pairs.mu[np.isfinite(pairs.mu)]
    mu = np.array([np.min(apart), np.max(apart)])  # epsilon grows with mu
    epsilon = epsilon_of(plan.terms.delta, mu)
    return {"mu": mu.tolist(), "epsilon": epsilon.tolist(), "reason": pairs.reason}


def oracle_metrics(training: Training) -> dict[str, Any]:
    """Return metrics on private records as JSON values, for the owner of the records alone.

    **Guarantee.** None: these are functions of private records without noise. They are written only
    to a file of their own.
    """
    best, dataset = training.nonprivate, training.dataset
    values = {
        "warning": ORACLE_WARNING,
        "failures": training.private_failures,
        "train_error": training.metrics.train_error,
        "train_loss": training.metrics.train_loss,
        "cells_outside_bounds": dataset.clipped if isinstance(dataset, Table) else None,
        "nonprivate_train_error": None if best is None else best.train_error,
        "nonprivate_train_loss": None if best is None else best.train_loss,
        "nonprivate_test_error": best.test_error if best and training.shows_test else None,
        "nonprivate_test_loss": best.test_loss if best and training.shows_test else None,
    }
    return dict(strict(values))


def error_name(training: Training) -> str:
    """Return "error", or "root-mean-square error" for a regression."""
    return "root-mean-square error" if training.dataset.task == "regression" else "error"


def strict(value: Any) -> Any:
    """Return `value` as RFC 8259 allows it.

    Tuples and arrays become lists, NumPy numbers plain ones, and values that JSON cannot express
    text: "infinity", "-infinity", "undefined" (not a number), `str(value)` for other objects.
    """
    if isinstance(value, dict):
        return {str(key): strict(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(entry) for entry in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return strict(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value).replace("inf", "infinity").replace("nan", "undefined")
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def plan_values(plan: Plan) -> dict[str, Any]:
    """Return the content of plan.json."""
    return dict(strict({"format": PLAN_FORMAT, **plan.to_dict(), "digest": plan.digest}))


def certificate_file(plan: Plan, certificate: Certificate | None = None, **about: object) -> str:
    """Return the certificate file of a run (docs/reference/certificate.md).

    `certificate`: None for that of the plan; another if the run includes an evaluation or a choice.
    `about`: entries that identify the run, such as its data; they come first.
    """
    counts, rows = plan.spec.counts, plan.terms.adjacency.rows_per_person
    stated = certificate or plan.certificate
    return json_text(
        {
            **about,
            "agents": len(counts),
            "records" if rows is None else "persons": sum(counts) // (rows or 1),
            "rounds": plan.rounds,
            "plan": plan.digest,
            "version": taciturn.__version__,
            "conditions": stated.conditions,
            "statement": stated.lines(),
            **document_of(stated),
        }
    )


def json_text(values: Any) -> str:
    """Return strict values as the text of a file; a value that JSON cannot express raises."""
    return json.dumps(values, indent=1, allow_nan=False) + "\n"
