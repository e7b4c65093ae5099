"""One self-contained page about a training, for people who do not know the library."""

from __future__ import annotations

import math
from html import escape

import tacit
from tacit.report.certificate_box import certificate_box, stamps
from tacit.report.figures import curves_svg
from tacit.report.markup import document, list_of, section, table_of
from tacit.report.results import between_agents, error_name, error_text
from tacit.report.settings import settings
from tacit.training import Training

_UNPROTECTED = (
    "The settings above, the number of agents, their record counts and the number of rounds: "
    "all are public by assumption.",
    "How long the run took, and how much was sent.",
    "Effects of floating-point arithmetic: the noise is drawn with finite precision.",
    "What the data says about the population: a model that predicts well reveals that, whether "
    "or not a given record was used.",
    "The figures and metrics on this page, which are computed without noise.",
)


_SETTINGS_NOTE = '<p class="small">All of it was fixed before any record was touched.</p>'
_THREAT_NOTE = '<p class="small">In full: <code>docs/explanation/threat-model.md</code>.</p>'


def page(training: Training) -> str:
    """Return the report as HTML; it loads nothing from elsewhere."""
    kind = "Training" if math.isinf(training.certificate.epsilon) else "Private training"
    title = f"{kind} on {training.dataset.title}"
    sections = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{escape(_story(training))}</p>',
        stamps(training.certificate, training.warnings),
        certificate_box(training.certificate),
        _between(training),
        _metrics(training),
        section("Settings", table_of(settings(training)) + _SETTINGS_NOTE),
        section("What is not protected", list_of(_UNPROTECTED) + _THREAT_NOTE),
        section("Data", table_of(_data(training))),
        _footer(training),
    ]
    return document(title, sections)


def _story(training: Training) -> str:
    proposal, dataset, best = training.proposal, training.dataset, training.nonprivate
    noise = "without noise" if math.isinf(training.certificate.epsilon) else "with noise"
    kind = "regression" if dataset.task == "regression" else "classifier"
    count = len(proposal.counts)
    agents = "1 agent" if count == 1 else f"{count} agents"
    rounds = "1 round" if training.plan.rounds == 1 else f"{training.plan.rounds} rounds"
    text = (
        f"{agents} trained one {kind} together on {dataset.train_rows:,} records, in "
        f"{rounds} of {proposal.method.name}: no agent showed its records, each "
        f"answered questions about them {noise}."
    )
    if not training.shows_test:
        return text + " The data is not public, so how well the model does is not shown."
    text += (
        f" On the test records the {error_name(training)} of the released model is "
        f"{error_text(training, training.metrics.test_error)}"
    )
    if best is None or not dataset.public:
        return text + "."
    return (
        text + f"; that of the optimum without privacy is {error_text(training, best.test_error)}."
    )


def _metrics(training: Training) -> str:
    if not training.shows_test:
        return ""
    public = training.dataset.public
    measured, best = training.metrics, training.nonprivate if public else None
    columns = [measured] if best is None else [measured, best]
    heads = ["released model", "non-private optimum"][: len(columns)]
    rows = [
        (f"test {error_name(training)}", [error_text(training, m.test_error) for m in columns]),
        ("test loss", [f"{m.test_loss:.4f}" for m in columns]),
    ]
    if public:
        rows.append(("training objective", [f"{m.train_loss:.4f}" for m in columns]))
    head = "".join(f'<th class="number">{name}</th>' for name in heads)
    body = "".join(
        f"<tr><th>{name}</th>" + "".join(f'<td class="number">{v}</td>' for v in values) + "</tr>"
        for name, values in rows
    )
    note = (
        '<p class="small">Oracle metrics: computed from the records themselves, without noise and '
        f"outside the certificate. They are shown because {_why_shown(training)}.</p>"
    )
    table = f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"
    return section("How well it does", table + note + curves_svg(training))


def _why_shown(training: Training) -> str:
    if training.dataset.public:
        return "this data set is published"
    return "the test records are public, as the user declares"


def _data(training: Training) -> list[tuple[str, str]]:
    dataset = training.dataset
    records, columns = dataset.features.shape
    return [
        ("name", f"{dataset.title} ({dataset.name})"),
        (
            "size",
            f"{dataset.train_rows:,} training and {records - dataset.train_rows:,} test records of "
            f"{columns} columns",
        ),
        ("source", dataset.source),
        ("licence", dataset.licence),
    ]


def _footer(training: Training) -> str:
    return (
        f'<footer class="small">tacit {tacit.__version__}, {training.seconds:.1f} s. Plan '
        f"<code>{training.plan.digest}</code> (plan.json); numbers in results.json.</footer>"
    )


def _between(training: Training) -> str:
    """Return `between_agents` as HTML, empty if it is None."""
    between = between_agents(training)
    if between is None:
        return ""
    rows = [(name, "{:.4g} to {:.4g}".format(*between[name])) for name in ("mu", "epsilon")]
    note = (
        "For an agent that hears its neighbours only and does not learn the released model, from "
        "the best to the worst protected pair; who learns the model too is covered by the "
        f"certificate. Why it is not less: {between['reason']}."
    )
    text = f'<p class="small">{escape(note)}</p>'
    return section("What one agent learns of another's record", table_of(rows) + text)
