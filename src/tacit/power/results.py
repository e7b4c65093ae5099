"""The results of private power flow as plain values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from tacit.power import BUNDLED, Flow, Optimum, ties
from tacit.report import CERTIFIED, strict


@dataclass(frozen=True, eq=False)
class GridStudy:
    """A run of private power flow with the central optimum to compare it with.

    Attributes
    ----------
    case
        The case as the user named it.
    optimum
        Of the same problem, solved in one place.
    oracle
        Whether the objective at unpublished demand, computed without noise, may be shown.
    """

    case: str
    flow: Flow
    optimum: Optimum
    oracle: bool

    @property
    def shows_objective(self) -> bool:
        """Whether the objective at the true demand is shown: published, no noise, or `oracle`."""
        private = math.isfinite(self.flow.run.certificate.epsilon)
        return self.case in BUNDLED or not private or self.oracle

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the zones."""
        return tuple(
            f"the buses of zone {zone + 1} do not hang together by lines within the zone; check it"
            for zone in self.flow.grid.zones.split
        )


def grid_results(study: GridStudy, out: Path | None) -> dict[str, Any]:
    """Return the results as strictly valid JSON values, powers per unit.

    Notes
    -----
    **Guarantee.** `objective` and `central_objective` are un-noised functions of the demand. They
    are None unless the case is published, the run had no noise, or `oracle` is set.
    """
    flow = study.flow
    relaxation, certificate = flow.grid.relaxation, flow.run.certificate
    shown = study.shows_objective
    values: dict[str, Any] = strict(
        {
            "case": relaxation.network.name,
            "buses": relaxation.network.buses,
            "lines": relaxation.network.lines,
            "zones": flow.grid.zones.count,
            "ties": len(ties(relaxation.network, flow.grid.zones)),
            "shared_variables": int(np.sum(np.asarray(flow.grid.sharing.holders) > 1)),
            "beta": flow.beta,
            "question": flow.settings.question,
            "rounds": flow.settings.rounds,
            "local_updates": flow.settings.updates,
            "objective": flow.objective[-1] if shown else None,
            "central_objective": study.optimum.objective if shown else None,
            "consensus_residual": flow.consensus_residual[-1],
            "max_violation": flow.violation[-1],
            "noise_scale": float(np.max(flow.run.ledger.scale)),
            "noise_magnitude": float(np.sum(flow.noise)),
            **{name: getattr(certificate, name) for name in CERTIFIED},
            "seconds": flow.run.seconds,
            "out": None if out is None else str(out),
            "warnings": study.warnings,
            "proposal": study.flow.proposal.digest,
            "plan": flow.run.plan.digest,
            "version": tacit.__version__,
        }
    )
    return values


def grid_curves(study: GridStudy) -> dict[str, list[float]]:
    """Return the metrics after every round; the objective only where it is shown."""
    flow = study.flow
    values = {"consensus_residual": flow.consensus_residual, "max_violation": flow.violation}
    if study.shows_objective:
        values["objective"] = flow.objective
    curves: dict[str, list[float]] = strict(values)
    return curves
