"""The public settings of a training, as rows of a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.algorithms import Algorithm
from tacit.engine.planning import describe
from tacit.proposal import Named, Proposal
from tacit.report.markup import spread
from tacit.training import Training

_NAMES = {
    "step_size": "step size",
    "momentum": "momentum",
    "averaging": "averaging weight",
    "averaged": "share of the rounds averaged",
    "rho": "ADMM parameter rho",
    "least_eigenvalue": "least eigenvalue of the mixing matrix",
}


def settings(training: Training) -> list[tuple[str, str]]:
    """Return (name, value) of every setting of the run; all of them are public."""
    plan, proposal = training.plan, training.proposal
    counts = plan.spec.counts
    rows = [
        ("algorithm", proposal.method.name),
        ("loss", str(proposal.loss)),
        ("regulariser", _weights(proposal)),
        ("constraint", str(proposal.constraint)),
        ("agents", f"{len(counts)}, with {spread(counts)} records each"),
        ("rounds", str(plan.rounds)),
        ("model coordinates", str(plan.spec.dimension)),
        ("record norm, at most", f"{plan.spec.record_norm:g}"),
        ("gradient of one record, norm at most", f"{plan.spec.gradient_bound:.4g}"),
        ("noise multiplier (scale / sensitivity)", f"{plan.multiplier:.5g}"),
        ("noise scale of an answer", spread(plan.ledger.scale[plan.ledger.asked])),
    ]
    if plan.network is not None:
        rows += _network(training)
    if plan.ledger.sampled:
        rows += [("sampling rate of the batches", spread(plan.ledger.rates))]
    rows += [(_NAMES.get(k, k), _over_time(v)) for k, v in plan.schedules.items()]
    rows += [(name, f"{value:g}") for name, value in _numbers(plan.program.algorithm)]
    return [*rows, ("precision", plan.precision), ("split seed", str(proposal.split_seed))]


def _weights(proposal: Proposal) -> str:
    """Return the regulariser as text, or the weights of the structure."""
    structure = proposal.structure
    if structure is None:
        return str(proposal.regulariser)
    weights = (structure.weight, structure.ridge) if structure.ridge else (structure.weight,)
    return str(Named(name="elastic" if structure.ridge else "l1", numbers=weights))


def _network(training: Training) -> list[tuple[str, str]]:
    """Return the network, and how often each agent answers."""
    network, answers = training.proposal.network, np.sum(training.plan.ledger.asked, axis=(1, 2))
    assert network is not None
    given = [("walk", network.walk), ("cap", network.cap)]
    return [
        ("network", network.name),
        *((name, str(value)) for name, value in given if value),
        ("answers of an agent", spread(answers)),
        ("epsilon of an agent", spread(training.certificate.per_agent_epsilon)),
    ]


def _over_time(values: Any) -> str:
    first, last = values[..., 0], values[..., -1]
    if np.all(values == values.flat[0]):
        return spread(values)
    return f"{spread(first)} in the first round, {spread(last)} in the last"


def _numbers(algorithm: Algorithm) -> list[tuple[str, float]]:
    """Return the numerical fields of the algorithm."""
    fields = describe(algorithm).items()
    return [(_NAMES.get(name, name), value) for name, value in fields if isinstance(value, float)]
