"""The private score of a fit: rows that were held out of it, and their one answer."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Int

from tacit import checks
from tacit.engine import Plan, Run
from tacit.errors import reason
from tacit.estimators.records import Targets
from tacit.evaluation import (
    PrivateScore,
    ask_held_out,
    evaluation_plan,
    scale_of,
    score_of_totals,
    with_evaluation,
)
from tacit.privacy import Certificate
from tacit.problems import Draw, Parts, Persons, Shards, hold_out, origin_of
from tacit.proposal import Proposal
from tacit.typing import HostArray


def divided(
    parts: Sequence[Int[HostArray, "_m"]],
    share: float | None,
    persons: Persons | None,
    *,
    draw: Draw,
) -> tuple[Sequence[Int[HostArray, "_m"]], Sequence[Int[HostArray, "_h"]]]:
    """Return the rows of each agent to fit to, and those held out of agents that hold some out."""
    if share is None:
        return parts, ()
    kept, held = hold_out(parts, checks.positive("evaluate", share), draw=draw, persons=persons)
    return kept, Parts([part for part in held if len(part)], origin_of(held))


def last_question(proposal: Proposal, plan: Plan) -> Certificate | None:
    """Return the certificate of the evaluation of a fit, before a record is asked; None without."""
    return evaluation_plan(proposal, plan).certificate if proposal.asks else None


def scored(  # noqa: PLR0913, PLR0917 - a fit, and what was held out of it
    proposal: Proposal,
    plan: Plan,
    last: Certificate | None,
    finished: Run,
    held_out: Shards | None,
    targets: Targets,
    seed: int | None,
) -> tuple[PrivateScore | None, Certificate, str]:
    """Return the private score of the weights that a fit released, and the certificate of both.

    An evaluation that fails has no score, and a line that says so, else empty; the certificate
    covers it all the same, since it may have answered.

    Parameters
    ----------
    plan
        Of the fit, with its certificate.
    last
        That of the evaluation alone; None for none, and no score.
    held_out
        The rows that were held out of the fit.
    """
    if last is None or held_out is None:
        return None, plan.certificate, ""
    both = with_evaluation(proposal, plan.certificate, last)
    try:
        asked = ask_held_out(
            proposal, plan, finished.model, held_out, trained_on=finished.origin, seed=seed
        )
        labels = None if targets.labels is None else tuple(map(str, targets.labels.tolist()))
        scale = scale_of(proposal, labels, targets.scale)
        return score_of_totals(proposal, asked.plan, asked.totals, scale), both, ""
    except Exception as error:
        line = (
            f"the evaluation failed: {reason(error)}. The fitted model stands, and its certificate "
            "covers the evaluation; private_score_ is None"
        )
        return None, both, line
