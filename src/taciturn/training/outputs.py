"""What a run released: the model, its trace, the map that it is linear in, and its certificate."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import jax
import numpy as np

from taciturn.algorithms import Centred
from taciturn.engine import Plan, Run
from taciturn.features import AroundCentre, FeatureMap
from taciturn.privacy import Certificate
from taciturn.problems import Origin
from taciturn.proposal import Proposal, feature_conditions, graph_conditions, weight_conditions
from taciturn.training.data import DividedData, inputs_for
from taciturn.typing import HostArray


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a run released.

    Attributes
    ----------
    plan
        With the certificate of the run.
    model
        The model.
    models
        The model after every round, `(T, ...)`.
    features
        The map that they are linear in, with the centre that the run released; None without.
    origin
        Where the records of the run came from.
    """

    plan: Plan
    model: HostArray
    models: HostArray
    features: FeatureMap | None
    origin: Origin | None


def outputs_of(finished: Run, proposal: Proposal, data: DividedData) -> Outputs:
    """Return the outputs of a run of a proposal; nothing but public facts of `data` is read."""
    features = data.features
    if proposal.centre:
        features = AroundCentre(inputs_for(data.dataset), features, _centre_of(finished))
    certificate = _stated(finished.certificate, proposal, data)
    plan = dataclasses.replace(finished.plan, certificate=certificate)
    return Outputs(
        plan, finished.model, np.asarray(finished.trace.models), features, finished.origin
    )


def _stated(certificate: Certificate, proposal: Proposal, data: DividedData) -> Certificate:
    """Return the certificate of a run with the conditions that its records and proposal add."""
    return certificate.under(
        (
            *data.dataset.conditions,
            *graph_conditions(proposal.structure),
            *weight_conditions(proposal.class_weights),
            *feature_conditions(proposal.data.features),
        ),
        conditional=proposal.conditional,
    )


def _centre_of(finished: Run) -> HostArray:
    """Return the centre that a run released, without the place of the constant."""
    algorithm, publics = finished.plan.program.algorithm, finished.trace.publics
    assert isinstance(algorithm, Centred)
    last = jax.tree.map(lambda leaf: np.asarray(leaf)[-1], publics)
    return np.asarray(jax.jit(Centred.centre)(algorithm, last), np.float64)[:-1]
