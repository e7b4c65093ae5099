"""What a training releases: model, trace and certificate, its metrics, and the model's file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

import taciturn
from taciturn.datasets import Dataset
from taciturn.engine import Charged, Plan
from taciturn.engine.running import summary_lines
from taciturn.errors import InputError
from taciturn.evaluation import Evaluated, PrivateScore
from taciturn.features import AroundCentre, FeatureMap
from taciturn.models import Model, Term, feature_terms, table_terms
from taciturn.privacy import Certificate
from taciturn.proposal import Proposal, labels_of
from taciturn.tables import Table
from taciturn.training.assessment import Assessment, Metrics
from taciturn.typing import HostArray


@dataclass(frozen=True, repr=False)
class Training:
    """A finished training run, or what it has released so far.

    - `features`: The feature map that the model is linear in, if any.
    - `plan`: With the certificate of the run by itself.
    - `models`: The trace: the released model after every round, `(T, ...)`.
    - `metrics`: Those on training records are computed for published data sets, and on request.
    - `curves`: `test_error` and `test_loss` of the released model after every round, `(T,)` each;
      empty where there are no test records.
    - `nonprivate`: The optimum of the same records without privacy; None if it was not computed.
    - `seconds`: Wall time of planning, running and measuring, without the non-private optimum.
    - `warnings`: What was said before a record was read.
    - `charged`: Where the run was charged; None if nowhere.
    - `failures`: A line for each later step that failed; what it would have given is missing.
    - `private_failures`: Such lines of steps that read private records without noise: not for
      publication.
    - `covering`: The certificate of training and evaluation together, known before either; None
      without an evaluation.
    - `evaluation`: What held-out records were asked; None if nothing was, or it failed.
    - `choice`: The certificate of all trainings that this one was picked from, and of the choice;
      None if it was the only one.
    """

    proposal: Proposal
    dataset: Dataset | Table
    features: FeatureMap | None
    plan: Plan
    model: HostArray
    models: HostArray
    metrics: Metrics
    curves: dict[str, HostArray]
    nonprivate: Metrics | None
    seconds: float
    warnings: tuple[str, ...]
    charged: Charged | None = None
    failures: tuple[str, ...] = ()
    private_failures: tuple[str, ...] = ()
    covering: Certificate | None = None
    evaluation: Evaluated | None = None
    choice: Certificate | None = None

    @property
    def certificate(self) -> Certificate:
        """The certificate of everything: conditions, evaluation or choice, the stamp of a seed."""
        # an evaluation that failed may have answered: it is covered all the same
        return self.choice or self.covering or self.plan.certificate

    @property
    def private_score(self) -> PrivateScore | None:
        """How good the model is, by noised counts of held-out records; None without any."""
        return None if self.evaluation is None else self.evaluation.score

    @property
    def assessment(self) -> Assessment | None:
        """How well the model does on the test records; None where that may not be shown."""
        return self.metrics.assessment if self.shows_test else None

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """The warnings, and those about the test records where these may be shown."""
        return (*self.warnings, *(() if self.assessment is None else self.assessment.warnings))

    @property
    def shows_test(self) -> bool:
        """Whether test metrics may be shown: the test records are published or declared public."""
        declared = self.dataset.public or isinstance(self.dataset, Table)
        return declared and not math.isnan(self.metrics.test_error)

    def __repr__(self) -> str:
        proposal = self.proposal
        error = f"{self.metrics.test_error:.4g}" if self.shows_test else "not shown"
        return "\n".join(
            [
                f"Training on {self.dataset.title}: {proposal.units_text}, "
                f"{len(proposal.counts)} agents",
                f"  {proposal.method.name}, {proposal.rounds} rounds; loss {proposal.clipped_loss}",
                *summary_lines(self.certificate, self.model),
                f"  test error: {error}; to_frame() for its curves",
                f"  charged to: {'nothing' if self.charged is None else self.charged.account}",
            ]
        )

    def to_frame(self) -> pd.DataFrame:
        """Return test error and test loss after every round, one row a round.

        Without columns where the test records are not public, or there are none.
        """
        index = pd.RangeIndex(1, self.plan.rounds + 1, name="round")
        return pd.DataFrame(self.curves if self.shows_test else {}, index=index)


def released(training: Training) -> Model:
    """Return the model of a training: of a table in its units, of a data set as it is loaded.

    **Guarantee.** Post-processing of the released weights by public facts, and what is shown of
    test records that are public.
    """
    dataset, proposal, features = training.dataset, training.proposal, training.features
    assessment, score = training.assessment, training.private_score
    if isinstance(dataset, Table):
        terms = table_model_terms(proposal, features, training.model)
    else:
        rows = training.model.reshape(len(training.model), -1).tolist()
        names = dataset.feature_names if features is None else features.names
        columns = zip(names, rows, strict=True)
        terms = tuple(Term(name, None, tuple(row)) for name, row in columns)
    return model_of(
        proposal,
        terms,
        training.certificate,
        features=features,
        data=dataset.name,
        assessment=None if assessment is None else assessment.to_dict(),
        private_score=None if score is None else score.to_dict(),
    )


def table_model_terms(
    proposal: Proposal, features: FeatureMap | None, weights: HostArray
) -> tuple[Term, ...]:
    """Return the terms of released weights of a proposal for a table, in the user's units.

    `features` is the map that the weights are linear in, with a centre that the run released.
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
    """Return a released model with its certificate, of the data set or file called `data`.

    `measured` are `assessment` and `private_score` as plain values, where there are any.
    """
    table = proposal.data.table
    bounds = None if table is None else table.bounds
    centre = tuple(features.centre.tolist()) if isinstance(features, AroundCentre) else None
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
        centre=centre,
        terms=terms,
        certificate=certificate.to_dict(),
        statement=tuple(certificate.lines()),
        taciturn_version=taciturn.__version__,
        **measured,
    )
