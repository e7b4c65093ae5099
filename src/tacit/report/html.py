"""One self-contained page about a training, for people who do not know the library.

`certificate_box` and `stamps` serve other pages too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

import tacit
from tacit.engine.planning import Plan, describe
from tacit.privacy import Certificate
from tacit.proposal import Named, Proposal, centre_text, network_rows
from tacit.report.accounts import charged_section
from tacit.report.figures import curves_svg
from tacit.report.layout import document, list_of, percent, section, spread, table_of
from tacit.report.private import private_section
from tacit.report.results import between_agents, error_name
from tacit.training import Assessment, Metrics, Training

UNPROTECTED = (
    "The settings above, the number of agents, their record counts and the number of rounds: "
    "all are public by assumption.",
    "How long the run took, and how much was sent.",
    "What the data says about the population: a model that predicts well reveals that, whether "
    "or not a given record was used.",
    "The metrics on test records on this page, which are computed without noise.",
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
        stamps(training.certificate, (*training.all_warnings, *training.failures)),
        certificate_box(training.certificate),
        charged_section(training.charged),
        _between(training),
        private_section(training.private_score),
        _metrics(training),
        settings_section(training.proposal, training.plan, training.certificate),
        section("What is not protected", list_of(UNPROTECTED) + _THREAT_NOTE),
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
        f"{agents} trained one {kind} together on {proposal.units_text}, in "
        f"{rounds} of {proposal.method.name}: no agent showed its records, each "
        f"answered questions about them {noise}."
    )
    score = training.private_score
    if score is not None:
        text += (
            f" {score.records:,} {score.unit}s more were held out and asked how good the model is, "
            "privately."
        )
    if not training.shows_test:
        if score is not None:
            return text
        return text + " The data is not public, so how well the model does is not shown."
    text += (
        f" On the test records the {error_name(training)} of the released model is "
        f"{_error(training, training.metrics.test_error)}"
    )
    assessment = training.assessment
    if assessment is not None:
        text += (
            f", that of always answering {assessment.baseline_text}, "
            f"{_error(training, assessment.baseline_error)}"
        )
    if best is None or not dataset.public:
        return text + "."
    return f"{text}; that of the optimum without privacy is {_error(training, best.test_error)}."


def _error(training: Training, value: float) -> str:
    """Return a fraction in per cent, or a number in the units of the target."""
    return f"{value:.4g}" if training.dataset.task == "regression" else percent(value)


def _metrics(training: Training) -> str:
    assessment = training.assessment
    if assessment is None:
        return ""
    public = training.dataset.public
    best = training.nonprivate if public else None
    models = {"released model": training.metrics}
    models |= {} if best is None else {"non-private optimum": best}
    heads = "".join(f'<th class="number">{name}</th>' for name in ("", "baseline", *models))
    rows = [*_beside(training, assessment, models.values())]
    rows.insert(1, ("test loss", "", [f"{m.test_loss:.4f}" for m in models.values()]))
    if public:
        rows.append(("training objective", "", [f"{m.train_loss:.4f}" for m in models.values()]))
    body = "".join(
        f"<tr><th>{escape(name)}</th>"
        + "".join(f'<td class="number">{value}</td>' for value in (baseline, *values))
        + "</tr>"
        for name, baseline, values in rows
    )
    drawing = curves_svg(training) if training.curves else ""
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    return section("How well it does", table + _note(training, assessment) + drawing)


def _beside(
    training: Training, assessment: Assessment, models: Iterable[Metrics]
) -> list[tuple[str, str, list[str]]]:
    """Return figures on the test records: their name, of the baseline, of each model."""
    measured = list(models)
    known = [one.assessment for one in measured if one.assessment is not None]
    baseline = _error(training, assessment.baseline_error)
    errors = [_error(training, one.test_error) for one in measured]
    rows = [(f"test {error_name(training)}", baseline, errors)]
    weighted = [one.weighted for one in known if one.weighted is not None]
    if assessment.weighted is not None:
        least = percent(assessment.weighted.baseline_error)
        shares = [percent(one.error) for one in weighted]
        rows.append(("test error with the class weights", least, shares))
    if assessment.r2 is not None:
        rows.append(("R^2", "0", [f"{one.r2:.3f}" for one in known]))
    if assessment.auc is not None:
        rows.append(("AUC", "0.5", [f"{one.auc:.3f}" for one in known]))
    for label, share in assessment.named():
        if share is not None:
            shares = [percent(dict(one.recall or ())[label] or 0.0) for one in known]
            always = percent(float(label == assessment.baseline))
            rows.append((f"recall of {label!r}", always, shares))
    return rows


def _note(training: Training, assessment: Assessment) -> str:
    """Return what the figures are, and why they are shown."""
    why = "the test records are public, as the user declares"
    if training.dataset.public:
        why = "this data set is published"
    chance = ""
    if assessment.auc_error is not None:
        chance = f" An AUC of 0.5 is chance, with a standard error of {assessment.auc_error:.2g}."
    return (
        f'<p class="small">On {assessment.records:,} test records. The baseline always answers '
        f"{escape(assessment.baseline_text)}.{chance} "
        "Oracle metrics: computed from the records themselves, without noise and "
        f"outside the certificate. They are shown because {why}.</p>"
    )


def _data(training: Training) -> list[tuple[str, str]]:
    dataset = training.dataset
    records, columns = dataset.features.shape
    tests = f"{records - dataset.train_rows:,} test records of {columns} columns"
    trained = f"{dataset.train_rows:,} training"
    if training.proposal.budget.unit != "record":  # how many rows persons have is private
        trained = training.proposal.units_text
    return [
        ("name", f"{dataset.title} ({dataset.name})"),
        ("size", f"{trained} and {tests}"),
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


_NAMES = {
    "step_size": "step size",
    "momentum": "momentum",
    "averaging": "averaging weight",
    "averaged": "share of the rounds averaged",
    "rho": "ADMM parameter rho",
    "least_eigenvalue": "least eigenvalue of the mixing matrix",
}


def settings_section(proposal: Proposal, plan: Plan, certificate: Certificate) -> str:
    """Return the settings of a run as a section; all of them are public."""
    return section("Settings", table_of(settings(proposal, plan, certificate)) + _SETTINGS_NOTE)


def settings(proposal: Proposal, plan: Plan, certificate: Certificate) -> list[tuple[str, str]]:
    """Return (name, value) of every setting of the run; all of them are public."""
    counts, rows_around = plan.spec.counts, centre_text(proposal, plan)
    rows = [
        ("algorithm", proposal.method.name),
        ("loss", str(proposal.clipped_loss)),
        *([("class weights", proposal.weights_text)] if proposal.weights_text is not None else []),
        *([("features", proposal.data.features)] if proposal.data.features is not None else []),
        *([("rows", rows_around)] if rows_around is not None else []),
        ("regulariser", _weights(proposal)),
        ("constraint", str(proposal.constraint)),
        ("agents", f"{len(counts)}, with {spread(counts)} {_places(proposal)} each"),
        ("rounds", str(plan.rounds)),
        ("model coordinates", str(plan.spec.dimension)),
        ("record norm, at most", f"{plan.spec.record_norm:g}"),
        ("gradient of one record, norm at most", f"{plan.spec.gradient_bound:.4g}"),
        ("noise multiplier (scale / sensitivity)", f"{plan.multiplier:.5g}"),
        ("noise scale of an answer", spread(plan.ledger.scale[plan.ledger.asked])),
    ]
    if plan.network is not None:
        rows += _network(proposal, plan, certificate)
    if plan.ledger.sampled:
        rows += [("sampling rate of the batches", spread(plan.ledger.rates))]
    rows += [(_NAMES.get(k, k), _over_time(v)) for k, v in plan.schedules.items()]
    fields = describe(plan.program.algorithm).items()
    rows += [(_NAMES.get(k, k), f"{v:g}") for k, v in fields if isinstance(v, float)]
    rows += [("precision", plan.precision)]
    if proposal.data.table is None or certificate.reproduction:  # else a secret draw divides them
        rows += [("split seed", str(proposal.split_seed))]
    return rows


def _places(proposal: Proposal) -> str:
    """Return what the counts of a proposal count."""
    return "records" if proposal.budget.unit == "record" else "places for rows of persons"


def _weights(proposal: Proposal) -> str:
    """Return the regulariser as text, or the weights of the structure."""
    structure = proposal.structure
    if structure is None:
        return str(proposal.regulariser)
    weights = (structure.weight, structure.ridge) if structure.ridge else (structure.weight,)
    return str(Named(name="elastic" if structure.ridge else "l1", numbers=weights))


def _network(proposal: Proposal, plan: Plan, certificate: Certificate) -> list[tuple[str, str]]:
    """Return the network, and how often each agent answers."""
    answers = np.sum(plan.ledger.asked, axis=(1, 2))
    return [
        *network_rows(proposal, plan),
        ("answers of an agent", spread(answers)),
        ("epsilon of an agent", spread(certificate.per_agent_epsilon)),
    ]


def _over_time(values: Any) -> str:
    first, last = values[..., 0], values[..., -1]
    if np.all(values == values.flat[0]):
        return spread(values)
    return f"{spread(first)} in the first round, {spread(last)} in the last"


def stamps(certificate: Certificate, warnings: Iterable[str]) -> str:
    """Return the warnings at the top of a page."""
    texts = []
    if certificate.reproduction:
        texts.append(
            "reproduction, not private: the noise came from a given seed, and whoever knows the "
            "seed can draw it again"
        )
    if math.isinf(certificate.epsilon):
        texts.append("no privacy: no noise was added")
    texts += [f"warning: {text}" for text in warnings]
    return "\n".join(f'<p class="stamp">{escape(text)}</p>' for text in texts)


def _budget(certificate: Certificate) -> str:
    """Return the certified total as text; epsilon is never rounded down."""
    if math.isinf(certificate.epsilon):
        return "epsilon = infinity: no privacy"
    epsilon = math.ceil(certificate.epsilon * 1e4 - 1e-6) / 1e4
    return f"epsilon = {epsilon:.4f}, delta = {certificate.delta:g}"


def certificate_box(certificate: Certificate) -> str:
    """Return the certificate as a framed section."""
    mu = "none: the noise is not exactly Gaussian"
    if certificate.mu is not None:
        mu = f"{certificate.mu:.4g}" if math.isfinite(certificate.mu) else "infinite"
    rows = [
        ("mu (exact Gaussian privacy)", mu),
        (f"what one {certificate.unit} means", f"{certificate.relation}: {certificate.record}"),
        *([] if certificate.persons is None else [("persons", certificate.persons)]),
        ("observer", _OBSERVERS.get(certificate.observer, certificate.observer)),
        ("taken on trust", certificate.trust),
        ("best attack", _attacker(certificate)),
        ("scope", certificate.scope),
        *(("condition", text) for text in certificate.conditions),
    ]
    noised = math.isfinite(certificate.epsilon)
    firm = noised and not certificate.reproduction and not certificate.conditional
    only_if = " <em>if the noise were secret</em>" if noised and certificate.reproduction else ""
    first = "Conditional: " if noised and certificate.conditional else ""
    return (
        f'<section class="{"box" if firm else "box open"}"><h2>Privacy certificate</h2>'
        f'<p class="figures">{first}{escape(_budget(certificate))}{only_if}</p>'
        f"{table_of(rows)}</section>"
    )


_OBSERVERS = {
    "messages": "messages: reads every message of every agent",
    "sum": "sum: sees the sum over all agents only",
}


def _attacker(certificate: Certificate) -> str:
    if math.isinf(certificate.epsilon):
        return "100 %: there is no noise"
    if certificate.reproduction:
        return "100 % for whoever knows the seed"
    return (
        f"true-positive rate at most {percent(certificate.attacker_tpr)} at 1 % false "
        f"positives, for an attacker who knows everything but one {certificate.unit}"
    )
