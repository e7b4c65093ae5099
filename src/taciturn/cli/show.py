"""`taciturn show`: a model or a certificate, with its guarantee recomputed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from taciturn.cli.console import Json, emit, one_of, path, printable, table
from taciturn.errors import InputError
from taciturn.models import Effect, Model, Term, effects, model_to_dict
from taciturn.report import json_text
from taciturn.report.disclosure import nist_page, registry_record
from taciturn.report.recomputed import examine
from taciturn.tables import MISSING, Categories, Numeric, encoded_name
from taciturn.training import epsilons_text, weights_text

_ALONE = (
    "Certificate: the file states no legs, so nothing can be recomputed and no guarantee is shown; "
    "show the folder of its report, or train again"
)


def show(
    file: Annotated[
        Path, typer.Argument(parser=path, help="A model.json, a certificate, or their folder.")
    ],
    largest: Annotated[int, typer.Option(min=1, help="The number of coefficients to show.")] = 20,
    as_: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="registry: a draft for the DP deployments registry; nist: answers to SP 800-226.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show a model or a certificate: its guarantee, recomputed, and coefficients.

    A file is refused if its figures do not follow from its other contents.
    """
    if as_ is not None:
        one_of("--as", as_, ("registry", "nist"))
    model, document, certificate = examine(file)
    if as_ is not None:
        if document is None:
            raise InputError(f"{file} states no legs to export; name the folder of its report")
        page = nist_page(document) if as_ == "nist" else json_text(registry_record(document))
        typer.echo(page, nl=False)
        return
    if json:
        values = {} if model is None else model_to_dict(model)
        found = None if certificate is None else certificate._asdict()
        emit({**({"document": document} if model is None else values), "recomputed": found})
        return
    lines = _title(model, document)
    if certificate is None:
        lines += [_ALONE]
    else:
        lines += ["Certificate, recomputed from the answers that the file states"]
        lines += [f"  {line}" for line in certificate.lines]
        lines += _by_agent(document)
        lines += ["", "On the word of the file (taciturn verify checks figures independently)"]
        lines += [f"  {line}" for line in certificate.stated]
    lines += [] if model is None else _about(model, largest)
    typer.echo("\n".join(map(printable, "\n".join(lines).split("\n"))))


def _by_agent(document: dict[str, Any] | None) -> list[str]:
    """Return the epsilon of an agent, which was recomputed, where agents differ in it."""
    each = [] if document is None else document["claim"]["per_agent_epsilon"]
    text = "" if "infinity" in each else epsilons_text(each)
    return [f"  Epsilon of each agent: {text}"] if len(set(text.split(", "))) > 1 else []


def _title(model: Model | None, document: dict[str, Any] | None) -> list[str]:
    if model is None and document is not None:
        names = ("data", "algorithm", "agents", "records", "persons", "rounds", "version")
        terms = ", ".join(f"{name} {document[name]}" for name in names if name in document)
        return [f"Certificate of a run, as its file states it: {terms}", ""]
    assert model is not None
    lines = [
        f"{model.task} model of {model.target!r}, trained on {model.data} with taciturn "
        f"{model.taciturn_version}",
        f"Loss: {model.clipped_loss}",
    ]
    if model.class_weights is not None and model.labels is not None:
        lines.append(f"Class weights: {weights_text(model.labels, model.class_weights)}")
    return [*lines, ""]


def _about(model: Model, largest: int) -> list[str]:
    lines: list[str] = []
    parts = (
        ("Test records, as the file states it", model.assessment),
        ("Records held out, as the file states it", model.private_score),
    )
    for head, values in parts:
        if values is not None:
            statement = values.get("statement")
            found = statement if isinstance(statement, list) else []
            lines += ["", head, *(f"  {line}" for line in found)]
    return [*lines, "", *_coefficients(model, largest), "", *_preprocessing(model)]


def _effects(model: Model, largest: int) -> list[str]:
    """Return the effects of the most influential columns, as many as fit in `largest` lines."""

    def width(column: tuple[Effect, ...]) -> float:
        return float(np.ptp([one.change for one in column], axis=0).max())

    ranked = sorted(effects(model), key=width, reverse=True)
    heads = model.labels if model.outputs > 1 and model.labels else ("change in score",)
    rows, shown = [["column", "at", *heads]], 0
    for column in ranked:
        if shown and len(rows) + len(column) > largest + 1:
            break
        shown += 1
        for one in column:
            here = " (reference)" if one is column[0] else ""
            changes = (f"{change:+.4g}" for change in one.change)
            rows.append([one.column, f"{one.value or MISSING}{here}", *changes])
    return [
        f"Effects ({shown} of {len(ranked)} columns, the most influential first): what the score "
        "changes by where one column leaves the reference row, whose numbers are in the middle of "
        "their ranges",
        table(rows),
    ]


def _coefficients(model: Model, largest: int) -> list[str]:
    if model.bounds is not None and model.feature_map is not None:
        return _effects(model, largest)

    def weight(term: Term) -> float:
        return _reach(model, term) * max(map(abs, term.coefficient))

    # by the change in score over a column's range, since units differ
    ranked = sorted(model.terms, key=weight, reverse=True)[:largest]
    heads = model.labels if model.outputs > 1 and model.labels else ("coefficient",)
    rows = [["column", *heads]]
    for term in ranked:
        name = "(intercept)" if term.column is None else term.column
        name = name if term.value is None else encoded_name(name, term.value)
        rows.append([name, *(f"{value:.5g}" for value in term.coefficient)])
    what = "per unit of the column, or for the category"
    if model.features is not None or model.centre is not None:
        what = f"per {_rows(model)}"
    title = (
        f"Coefficients ({len(ranked)} of {len(model.terms)}, {what}; the most influential first)"
    )
    return [title, table(rows)]


def _rows(model: Model) -> str:
    what = "column" if model.features is None else f"feature of {model.features}"
    return what if model.centre is None else f"{what}, on rows around the centre"


def _reach(model: Model, term: Term) -> float:
    """Return the width of a column's range, or 1."""
    per_feature = model.feature_map is not None
    if model.bounds is None or per_feature or term.column is None or term.value is not None:
        return 1.0
    fact = model.bounds.columns[term.column]
    if isinstance(fact, Categories):
        return 1.0
    low, high = fact.ends
    return high - low


def _preprocessing(model: Model) -> list[str]:
    if model.bounds is None:
        return [f"Preprocessing: that of the bundled data set {model.data}"]
    bounds = model.bounds
    ends = "[0, 1]" if bounds.interval == "unit" else "[-1, 1]"
    lines = [f"Preprocessing (source: {bounds.origin}; trained on numbers mapped to {ends})"]
    form = bounds.form.different()
    lines += [f"  files: {', '.join(f'{k} {v!r}' for k, v in form.items())}"] if form else []
    facts = {bounds.target_name: bounds.target, **bounds.columns}
    lines += [f"  then per {_rows(model)}"] if model.feature_map else []
    return [*lines, *(f"  {name}: {_fact(fact)}" for name, fact in facts.items())]


def _fact(fact: Numeric | Categories) -> str:
    missing = f"; missing: empty, {', '.join(fact.missing)}" if fact.missing else ""
    # scale, bins, centre and weight as the bounds file states them
    coding = "".join(f"; {name} {value}" for name, value in fact.coding.items())
    if isinstance(fact, Categories):
        flags = "".join(f"; {name}" for name in ("fold_case", "strip") if getattr(fact, name))
        return f"one of {', '.join(fact.values)}{flags}{missing}{coding}"
    dates = f" days since 1970-01-01, written as {fact.date}" if fact.date else ""
    if fact.accepts_missing:
        marked = "with an indicator" if fact.indicator else "without an indicator"
        missing = f"; a missing cell counts as {fact.filled:g}, {marked}{missing}"
    return f"clipped to {fact.minimum:g} .. {fact.maximum:g}{dates}{missing}{coding}"
