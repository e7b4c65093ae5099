"""What a run released, as parts of a report: a model, counted tables, or coefficients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from taciturn.algorithms import COUNTS
from taciturn.counting import counted_tables
from taciturn.counting import lines_of as lines_of_tables
from taciturn.engine import Plan
from taciturn.errors import reason
from taciturn.features import CentredRows
from taciturn.models import Model, model_text
from taciturn.regression import is_regression, latex_of, regression_table
from taciturn.regression import lines_of as lines_of_coefficients
from taciturn.report import Section, counting_sections, regression_sections
from taciturn.training import model_of, table_model_terms
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.inbox import Outcome


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a run released, in the forms of a report."""

    done: str  # what the sites did together, as "counted"; a number of records follows
    title: str  # of the most important file
    file: str
    texts: Mapping[str, str] = field(default_factory=dict)  # files by name
    lines: tuple[str, ...] = ()  # for the terminal
    sections: tuple[Section, ...] = ()  # of the page


# the files of all results: of an earlier report those that the new one lacks are removed
RESULT_FILES = (
    "model.json", "counts.json", "counts.csv", "coefficients.json", "coefficients.csv",
    "coefficients.tex",
)  # fmt: skip


def result_of(
    signed: SignedProposal, plan: Plan, outcome: Outcome, score: Mapping[str, Any] | None
) -> Result:
    """Return what a run released; `score`: the figures of its evaluation as plain values, if any.

    **Guarantee.** Post-processing of noised answers by public facts: the plan, the proposal and
    what the run released.
    """
    proposal = signed.proposal
    if outcome.model is None:
        return Result(done="trained one model on", title="Model", file="model.json")
    if proposal.method.name == COUNTS:
        tables = counted_tables(proposal, plan, np.asarray(outcome.model))
        frame = tables.to_frame().to_csv(index=False)
        return Result(
            done="counted", title="Tables", file="counts.csv",
            texts={"counts.json": tables.to_json(), "counts.csv": frame},
            lines=tuple(lines_of_tables(tables)), sections=counting_sections(tables),
        )  # fmt: skip
    texts = {"model.json": model_text(_model(signed, outcome, score))}
    model = Result(done="trained one model on", title="Model", file="model.json", texts=texts)
    # of a run that ended early the noise of the last answer is another one
    if outcome.ending != "finished" or not is_regression(proposal):
        return model
    try:
        table = regression_table(proposal, plan, outcome.asked)
    except Exception as error:  # whatever it is: the run was charged, and the model is released
        return replace(model, lines=(f"The table cannot be computed: {reason(error)}",))
    lines, sections = tuple(lines_of_coefficients(table)), regression_sections(table)
    texts |= {"coefficients.json": table.to_json()}
    if table.refused is not None:
        did = "asked for a regression of"
        return replace(model, done=did, texts=texts, lines=lines, sections=sections)
    texts |= {"coefficients.csv": table.to_frame().to_csv()}
    texts |= {"coefficients.tex": latex_of(table)}
    return Result(done="estimated a regression from", title="Table", file="coefficients.csv",
                  texts=texts, lines=lines, sections=sections)  # fmt: skip


def _model(signed: SignedProposal, outcome: Outcome, score: Mapping[str, Any] | None) -> Model:
    """Return the released model in the units of the columns."""
    proposal, features = signed.proposal, signed.proposal.data.feature_map
    if outcome.centre is not None:
        features = CentredRows(proposal.data.inputs, features, np.asarray(outcome.centre))
    terms = table_model_terms(proposal, features, outcome.model)
    return model_of(proposal, terms, outcome.certificate, features=features,
                    data=signed.study, private_score=score)  # fmt: skip
