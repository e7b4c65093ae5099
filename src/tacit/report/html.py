"""One self-contained page about a training, for people who do not know the library.

The parts of a page (`document`, `section`, `certificate_box` and the rest) serve other pages too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

import tacit
from tacit.engine.planning import describe
from tacit.privacy import Certificate
from tacit.proposal import Named, Proposal
from tacit.report.figures import curves_svg
from tacit.report.results import between_agents, error_name
from tacit.training import Training

_CSS = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #fbfbfa; color: #1d232b;
       font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 860px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 1.65rem; line-height: 1.25; margin: 0 0 .6rem; }
h2 { font-size: 1.12rem; margin: 2.2rem 0 .6rem; }
p { margin: .5rem 0; }
.lead { font-size: 1.06rem; }
.small { color: #59626d; font-size: .88rem; }
.stamp { border: 2px solid #b42318; color: #b42318; background: #fef3f2; font-weight: 600;
         padding: .55rem .9rem; border-radius: 6px; margin: 1rem 0; }
.box { background: #fff; border: 1px solid #d5dbe2; border-left: 5px solid #1f5fa8;
       border-radius: 6px; padding: .3rem 1.2rem .9rem; margin: 1.4rem 0; }
.box.open { border-left-color: #b42318; }
.box h2 { margin-top: .8rem; }
.figures { font-size: 1.3rem; font-weight: 600; margin: .2rem 0 .6rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .32rem .9rem .32rem 0;
         border-bottom: 1px solid #e7ebef; }
tr:last-child > * { border-bottom: 0; }
tbody th { font-weight: 500; color: #59626d; width: 31%; }
thead th { font-weight: 600; border-bottom: 1px solid #aab3bd; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
ul { margin: .4rem 0; padding-left: 1.2rem; }
code { font: .88em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
       overflow-wrap: anywhere; }
svg { display: block; width: 100%; height: auto; margin-top: 1.1rem; }
footer { margin-top: 2.6rem; border-top: 1px solid #d5dbe2; padding-top: .8rem; }
"""


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
        f"{_error(training, training.metrics.test_error)}"
    )
    if best is None or not dataset.public:
        return text + "."
    return f"{text}; that of the optimum without privacy is {_error(training, best.test_error)}."


def _error(training: Training, value: float) -> str:
    """Return a fraction in per cent, or a number in the units of the target."""
    return f"{value:.4g}" if training.dataset.task == "regression" else _percent(value)


def _metrics(training: Training) -> str:
    if not training.shows_test:
        return ""
    public = training.dataset.public
    measured, best = training.metrics, training.nonprivate if public else None
    columns = [measured] if best is None else [measured, best]
    heads = ["released model", "non-private optimum"][: len(columns)]
    rows = [
        (f"test {error_name(training)}", [_error(training, m.test_error) for m in columns]),
        ("test loss", [f"{m.test_loss:.4f}" for m in columns]),
    ]
    if public:
        rows.append(("training objective", [f"{m.train_loss:.4f}" for m in columns]))
    head = "".join(f'<th class="number">{name}</th>' for name in heads)
    body = "".join(
        f"<tr><th>{name}</th>" + "".join(f'<td class="number">{v}</td>' for v in values) + "</tr>"
        for name, values in rows
    )
    why = "the test records are public, as the user declares"
    if public:
        why = "this data set is published"
    note = (
        '<p class="small">Oracle metrics: computed from the records themselves, without noise and '
        f"outside the certificate. They are shown because {why}.</p>"
    )
    table = f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"
    return section("How well it does", table + note + curves_svg(training))


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
        *([("class weights", proposal.weights_text)] if proposal.weights_text is not None else []),
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
    fields = describe(plan.program.algorithm).items()
    rows += [(_NAMES.get(k, k), f"{v:g}") for k, v in fields if isinstance(v, float)]
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
        ("what one record means", f"{certificate.relation}: {certificate.record}"),
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
        f"true-positive rate at most {_percent(certificate.attacker_tpr)} at 1 % false "
        "positives, for an attacker who knows everything but one record"
    )


def document(title: str, sections: Iterable[str]) -> str:
    """Return a whole page of HTML sections, empty ones left out; it loads nothing from elsewhere.

    Parameters
    ----------
    title
        Plain text; all else is HTML already.
    """
    body = "\n".join(part for part in sections if part)
    return (
        '<!doctype html>\n<html lang="en-GB">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def section(title: str, content: str) -> str:
    """Return HTML under a heading."""
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def table_of(rows: Iterable[tuple[str, str]]) -> str:
    """Return (name, value) rows of plain text as a table."""
    body = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows
    )
    return f"<table><tbody>{body}</tbody></table>"


def list_of(entries: Iterable[str]) -> str:
    """Return plain texts as a list."""
    return "<ul>" + "".join(f"<li>{escape(entry)}</li>" for entry in entries) + "</ul>"


def _percent(fraction: float) -> str:
    """Return a fraction as text in per cent.

    Examples
    --------
    >>> _percent(0.15149)
    '15.15 %'
    """
    return f"{100 * fraction:.2f} %"


def spread(values: Any) -> str:
    """Return one number, or the least and the largest.

    Examples
    --------
    >>> spread([3, 3, 4])
    '3 to 4'
    """
    least, most = float(np.min(values)), float(np.max(values))
    return f"{least:.6g}" if least == most else f"{least:.6g} to {most:.6g}"
