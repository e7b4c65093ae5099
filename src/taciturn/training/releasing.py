"""The model of a training, as it is saved and shown."""

from __future__ import annotations

from typing import Any

import taciturn
from taciturn.errors import InputError
from taciturn.features import AroundCentre, FeatureMap
from taciturn.models import Model, Term, feature_terms, table_terms
from taciturn.privacy import Certificate
from taciturn.proposal import Proposal, labels_of
from taciturn.tables import Table
from taciturn.training.training import Training
from taciturn.typing import HostArray


def _centre_in(features: FeatureMap | None) -> tuple[float, ...] | None:
    return tuple(features.centre.tolist()) if isinstance(features, AroundCentre) else None


def released(training: Training) -> Model:
    """Return the model of a training: of a table in its units, of a data set as it is loaded.

    Notes
    -----
    **Guarantee.** Post-processing of the released weights by public facts, and what is shown of
    test records that are public.
    """
    dataset, assessment, score = training.dataset, training.assessment, training.private_score
    measured: dict[str, Any] = {
        "assessment": None if assessment is None else assessment.to_dict(),
        "private_score": None if score is None else score.to_dict(),
    }
    if isinstance(dataset, Table):
        terms = table_model_terms(training.proposal, training.features, training.model)
    else:
        rows = training.model.reshape(len(training.model), -1).tolist()
        names = dataset.feature_names if training.features is None else training.features.names
        columns = zip(names, rows, strict=True)
        terms = tuple(Term(name, None, tuple(row)) for name, row in columns)
    return model_of(
        training.proposal,
        terms,
        training.certificate,
        features=training.features,
        data=dataset.name,
        **measured,
    )


def table_model_terms(
    proposal: Proposal, features: FeatureMap | None, weights: HostArray
) -> tuple[Term, ...]:
    """Return the terms of released weights of a proposal for a table, in the user's units.

    Parameters
    ----------
    features
        The map that the weights are linear in, with a centre that the run released.
    """
    if proposal.data.table is None:
        raise InputError("the proposal is for no table, so its model has no columns; name a table")
    bounds = proposal.data.table.bounds
    if features is None:
        return table_terms(bounds, weights)
    return feature_terms(bounds, features, weights)


def model_of(
    proposal: Proposal,
    terms: tuple[Term, ...],
    certificate: Certificate,
    *,
    features: FeatureMap | None,
    data: str,
    **measured: Any,
) -> Model:
    """Return a released model with its certificate.

    Parameters
    ----------
    data
        Name of the data set, or of the table's file.
    measured
        `assessment` and `private_score` as plain values, where there are any.
    """
    table = proposal.data.table
    bounds = None if table is None else table.bounds
    return Model(
        data=data,
        task=proposal.data.task,
        loss=str(proposal.loss),
        clip=proposal.clip,
        class_weights=proposal.class_weights,
        target="label" if bounds is None else bounds.target_name,
        labels=labels_of(proposal.data),
        bounds=bounds,
        features=proposal.data.features,
        centre=_centre_in(features),
        terms=terms,
        certificate=certificate.to_dict(),
        statement=tuple(certificate.lines()),
        taciturn_version=taciturn.__version__,
        **measured,
    )
