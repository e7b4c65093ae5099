"""The model of a training, as it is saved and shown."""

from __future__ import annotations

import tacit
from tacit.features import AroundCentre, FeatureMap
from tacit.models import Model, Term, feature_terms, table_terms
from tacit.proposal import labels_of
from tacit.tables import Table
from tacit.training.data import data_facts
from tacit.training.training import Training


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
    bounds, target = None, "label"
    if isinstance(dataset, Table):
        bounds, target = dataset.bounds, dataset.bounds.target_name
        if training.features is None:
            terms = table_terms(bounds, training.model)
        else:
            terms = feature_terms(bounds, training.features, training.model)
    else:
        rows = training.model.reshape(len(training.model), -1).tolist()
        names = dataset.feature_names if training.features is None else training.features.names
        columns = zip(names, rows, strict=True)
        terms = tuple(Term(name, None, tuple(row)) for name, row in columns)
    return Model(
        data=dataset.name,
        task=dataset.task,
        loss=str(training.proposal.loss),
        class_weights=training.proposal.class_weights,
        target=target,
        labels=labels_of(data_facts(dataset)),
        bounds=bounds,
        features=training.proposal.data.features,
        centre=_centre_in(training.features),
        terms=terms,
        certificate=training.certificate.to_dict(),
        statement=tuple(training.certificate.lines()),
        tacit_version=tacit.__version__,
        assessment=None if assessment is None else assessment.to_dict(),
        private_score=None if score is None else score.to_dict(),
    )
