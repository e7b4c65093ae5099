"""The private score of a fit: rows that were held out of it, and their one answer."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Int

from tacit import checks
from tacit.engine import Plan, Run
from tacit.estimators.records import Targets
from tacit.evaluation import PrivateScore, evaluate, scale_of
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


def scored(
    proposal: Proposal,
    plan: Plan,
    finished: Run,
    held_out: Shards | None,
    targets: Targets,
    seed: int | None,
) -> tuple[PrivateScore | None, Certificate]:
    """Return the private score of the weights that a fit released, and the certificate of both.

    Parameters
    ----------
    plan
        Of the fit, with its certificate.
    held_out
        The rows that were held out of it; None for none, and no score.
    """
    if held_out is None:
        return None, plan.certificate
    labels = None if targets.labels is None else tuple(map(str, targets.labels.tolist()))
    scale = scale_of(proposal, labels, targets.scale)
    asked = evaluate(
        proposal, plan, finished.model, held_out, scale, trained_on=finished.origin, seed=seed
    )
    return asked.score, asked.certificate
