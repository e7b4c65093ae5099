"""The model that a training releases."""

from __future__ import annotations

import tacit
from tacit.datasets import Dataset
from tacit.models import Model, Term, table_terms
from tacit.tables import Table
from tacit.training.training import Training


def released(training: Training) -> Model:
    """Return the model of a training: of a table in its own units, of a data set as it is loaded.

    Notes
    -----
    **Guarantee.** Post-processing of the released weights by public facts.
    """
    dataset = training.dataset
    bounds = dataset.bounds if isinstance(dataset, Table) else None
    return Model(
        data=dataset.name,
        task=dataset.task,
        loss=str(training.proposal.loss),
        target="label" if bounds is None else bounds.target_name,
        labels=_labels(dataset),
        bounds=bounds,
        terms=_bare(training) if bounds is None else table_terms(bounds, training.model),
        certificate=training.certificate.to_dict(),
        statement=tuple(training.certificate.lines()),
        tacit_version=tacit.__version__,
    )


def _labels(dataset: Dataset | Table) -> tuple[str, ...] | None:
    if isinstance(dataset, Table):
        return dataset.bounds.labels
    if dataset.classes is None:
        return None
    if dataset.task == "binary":
        return ("-1", "1")
    return tuple(str(number) for number in range(dataset.classes))


def _bare(training: Training) -> tuple[Term, ...]:
    rows = training.model.reshape(len(training.model), -1).tolist()
    names = training.dataset.feature_names
    return tuple(Term(name, None, tuple(row)) for name, row in zip(names, rows, strict=True))
