"""The page of a training, and sections shared with the pages of other runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from taciturn.engine import Charged, Run
from taciturn.engine.planning import Plan, describe
from taciturn.kernel.privacy import Certificate
from taciturn.problems import Named
from taciturn.report.accounts import NOWHERE, promise, shares
from taciturn.report.page import (
    BLUE,
    Bars,
    Drawing,
    Items,
    Note,
    Page,
    Part,
    Section,
    Table,
    drawing,
    label_axes,
    percent,
    spread,
)
from taciturn.report.results import between_agents, error_name
from taciturn.training import (
    Assessment,
    Metrics,
    Proposal,
    Training,
    agent_rows,
    centre_text,
    network_rows,
)
from taciturn.training.evaluation import PrivateScore
from taciturn.training.evaluation import percent as percent_with_interval
from taciturn.training.probabilities import ProbabilityScores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_REFERENCE, _BASELINE = "#b45309", "#59626d"
NOT_PROTECTED = "What is not protected"
UNPROTECTED = (
    "The settings above, the number of agents, their record counts and the number of rounds: "
    "all are public by assumption.",
    "How long the run took, and how much was sent.",
    "What the data shows about the population: a model that predicts well reveals that, whether "
    "or not a given record was used.",
    "The metrics on test records on this page, which are computed without noise.",
)
_NAMES = {
    "step_size": "step size",
    "momentum": "momentum",
    "averaging": "averaging weight",
    "averaged": "share of the rounds averaged",
    "rho": "ADMM parameter rho",
    "least_eigenvalue": "least eigenvalue of the mixing matrix",
}


def run_page(  # noqa: PLR0913 - the parts of a page, from top to bottom
    run: Run | Training,
    *,
    title: str,
    story: str,
    warnings: Iterable[str],
    sections: Sequence[Section],
    unprotected: Sequence[str],
    holds: str,
    took: str = "",
) -> Page:
    """Return the page of a run: certificate, account, `sections`, then the `unprotected` facts.

    The footer reads "12.3 s`took`. Plan ... (plan.json); `holds`."; `holds` names further files.
    """
    return Page(
        title=title,
        story=(story,),
        stamps=stamps(run.certificate, warnings),
        sections=(
            certificate_section(run.certificate),
            account_section(run.charged),
            *sections,
            Section(NOT_PROTECTED, (Items(unprotected),)),
        ),
        footer=f"{run.seconds:.1f} s{took}. Plan {run.plan.digest} (plan.json); {holds}.",
    )


def stamps(certificate: Certificate, warnings: Iterable[str]) -> tuple[str, ...]:
    """Return the warnings at the top of a page."""
    texts = []
    if certificate.reproduction:
        texts.append(
            "reproduction, not private: the noise came from a given seed, and anyone who knows "
            "the seed can draw it again"
        )
    if math.isinf(certificate.epsilon):
        texts.append("no privacy: no noise was added")
    return (*texts, *(f"warning: {text}" for text in warnings))


def certificate_section(certificate: Certificate) -> Section:
    """Return the certificate in a frame, which is red unless epsilon holds unconditionally."""
    conditional, reproduction = certificate.conditional, certificate.reproduction
    total, firm = "epsilon = infinity: no privacy", False
    if math.isfinite(certificate.epsilon):
        first = "Conditional: " if conditional else ""
        epsilon = math.ceil(certificate.epsilon * 1e4 - 1e-6) / 1e4  # never rounded down
        only_if = " if the noise were secret" if reproduction else ""
        total = f"{first}epsilon = {epsilon:.4f}, delta = {certificate.delta:g}{only_if}"
        firm = not reproduction and not conditional
    attacker = Note(f"The attacker knows everything except one {certificate.unit}.")
    parts = (Items(certificate.lines()), attacker)
    return Section("Privacy certificate", parts, total, "box" if firm else "box open")


def account_section(charged: Charged | None) -> Section:
    """Return the account before and after a run, with a bar for each of its caps."""
    if charged is None:
        return Section("Account", (NOWHERE,))
    before, after = charged.before, charged.after
    rows = [
        ("account", f"{charged.account}: {promise(after.guarantee)}, for all of its runs together"),
        ("runs charged", f"{before.sums.runs} before, {after.sums.runs} now"),
        ("left before", before.left_text()),
        ("left now", after.left_text()),
    ]
    pairs = zip(shares(before), shares(after), strict=True)
    bars = [(name, first, second) for (name, first), (_, second) in pairs]
    note = (
        "Shares of the caps: charged before (grey), by this run (orange), left for later runs "
        "(light), when this run ended. The guarantee is that of the account."
    )
    return Section("Account", (Table(rows), Bars(bars), Note(note)))


def score_sections(score: PrivateScore | None) -> tuple[Section, ...]:
    """Return the section of a private score and its calibration, if there is a score."""
    if score is None:
        return ()
    bins = [
        (f"{part.low:.2f} to {part.high:.2f}", percent_with_interval(part.share))
        for part in score.calibration or ()
    ]
    parts: list[Part] = [score.head, Table(score.rows())]
    if bins:
        caption = "Observed share of records, by predicted probability"
        parts.append(Table(bins, caption=caption))
    note = (
        f"One noised answer of each agent, covered by the certificate. These {score.unit}s were "
        f"not used in training, so no {score.unit} loses more privacy than in the training alone."
    )
    return (Section("Private evaluation", (*parts, Note(note))),)


def settings_section(proposal: Proposal, plan: Plan, certificate: Certificate) -> Section:
    """Return the settings of a run; all of them are public."""
    note = Note("All settings were fixed before any record was read.")
    return Section("Settings", (Table(settings(proposal, plan, certificate)), note))


def settings(proposal: Proposal, plan: Plan, certificate: Certificate) -> list[tuple[str, str]]:
    """Return (name, value) of every setting of the run."""
    counts, ledger = plan.spec.counts, plan.ledger
    places = "records" if proposal.budget.unit == "record" else "places for rows of persons"
    each = "" if len(counts) == 1 else " each"
    regulariser, structure = str(proposal.regulariser), proposal.structure
    if structure is not None:
        weights = (structure.weight, structure.ridge) if structure.ridge else (structure.weight,)
        regulariser = str(Named(name="elastic" if structure.ridge else "l1", numbers=weights))
    stated = [
        ("algorithm", proposal.method.name),
        ("loss", str(proposal.clipped_loss)),
        ("class weights", proposal.weights_text),
        ("features", proposal.data.features),
        ("rows", centre_text(proposal, plan)),
        ("regulariser", regulariser),
        ("constraint", proposal.data.constraint_text(proposal.constraint)),
        ("agents", f"{len(counts)}, with {spread(counts)} {places}{each}"),
        ("rounds", str(plan.rounds)),
        ("model coordinates", str(plan.spec.dimension)),
        ("record norm, at most", f"{plan.spec.record_norm:g}"),
        ("gradient of one record, norm at most", f"{plan.spec.gradient_bound:.4g}"),
        ("noise multiplier (scale / sensitivity)", f"{plan.multiplier:.5g}"),
        ("noise scale of an answer", spread(ledger.scale[ledger.asked])),
    ]
    rows = [(name, text) for name, text in stated if text is not None]
    rows += agent_rows(proposal, plan, certificate)
    if plan.network is not None:
        rows += [
            *network_rows(proposal, plan),
            ("answers of an agent", spread(np.sum(ledger.asked, axis=(1, 2)))),
            ("epsilon of an agent", spread(certificate.per_agent_epsilon)),
        ]
    if ledger.sampled:
        rows += [("sampling rate of the batches", spread(ledger.rate))]
    rows += [(_NAMES.get(k, k), _schedule_text(v)) for k, v in plan.schedules.items()]
    fields = describe(plan.program.algorithm).items()
    rows += [(_NAMES.get(k, k), f"{v:g}") for k, v in fields if isinstance(v, float)]
    rows += [("precision", plan.precision)]
    # Private records are divided by a secret draw; only published data and reproductions use a seed
    if proposal.data.table is None or certificate.reproduction:
        rows += [("split seed", str(proposal.split_seed))]
    return rows


def _schedule_text(values: Any) -> str:
    if np.all(values == values.flat[0]):
        return spread(values)
    return f"{spread(values[..., 0])} in the first round, {spread(values[..., -1])} in the last"


def training_page(training: Training) -> Page:
    """Return the page of a training, written for readers who do not know the library."""
    certificate = training.certificate
    kind = "Training" if math.isinf(certificate.epsilon) else "Private training"
    return run_page(
        training,
        title=f"{kind} on {training.dataset.title}",
        story=_story(training),
        warnings=(*training.all_warnings, *training.failures),
        sections=(
            *_between(training),
            *score_sections(training.private_score),
            *_metrics(training),
            settings_section(training.proposal, training.plan, certificate),
            Section("Data", (Table(_data(training)),)),
        ),
        unprotected=(*UNPROTECTED, "In full: docs/explanation/threat-model.md."),
        holds="numbers in results.json",
    )


def _story(training: Training) -> str:
    proposal, dataset, best = training.proposal, training.dataset, training.nonprivate
    noise = "without noise" if math.isinf(training.certificate.epsilon) else "with noise"
    kind = "regression" if dataset.task == "regression" else "classifier"
    counts = {"agent": len(proposal.counts), "round": training.plan.rounds}
    agents, rounds = (f"{n} {what}{'' if n == 1 else 's'}" for what, n in counts.items())
    how = f"on {proposal.units_text}, in {rounds} of {proposal.method.name}"
    text = (
        f"{agents} trained one {kind} jointly {how}. No agent disclosed its records: each answered "
        f"questions about them {noise}."
    )
    if counts["agent"] == 1:
        text = (
            f"One agent trained a {kind} {how}. It disclosed no record: it answered questions "
            f"about them {noise}."
        )
    score = training.private_score
    if score is not None:
        text += f" Another {score.records:,} {score.unit}s were held out for a private evaluation."
    if not training.shows_test:
        hidden = " The data is not public, so the accuracy of the model is not shown."
        return text if score is not None else text + hidden
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
    """Return an error as text: in per cent, or in the units of a regression target."""
    return f"{value:.4g}" if training.dataset.task == "regression" else percent(value)


def _between(training: Training) -> tuple[Section, ...]:
    """Return `between_agents` as a section, unless it is None."""
    between = between_agents(training)
    if between is None:
        return ()
    rows = [(name, "{:.4g} to {:.4g}".format(*between[name])) for name in ("mu", "epsilon")]
    note = (
        "For an agent that receives only its neighbours' messages and not the released model, "
        "from the best to the worst protected pair. An agent that also receives the model is "
        f"covered by the certificate. Why it is not less: {between['reason']}."
    )
    return (Section("What one agent learns of another's record", (Table(rows), Note(note))),)


def _metrics(training: Training) -> tuple[Section, ...]:
    assessment = training.assessment
    if assessment is None:
        return ()
    public = training.dataset.public
    best = training.nonprivate if public else None
    models = {"released model": training.metrics}
    models |= {} if best is None else {"non-private optimum": best}
    rows = _figures(training, assessment, list(models.values()))
    why = "the test records are public, as the user declares"
    if public:
        rows.append(("training objective", "", *(f"{m.train_loss:.4f}" for m in models.values())))
        why = "this data set is published"
    chance = ""
    if assessment.auc_error is not None:
        chance = f" Chance is an AUC of 0.5, with a standard error of {assessment.auc_error:.2g}."
    note = Note(
        f"On {assessment.records:,} test records. The baseline always answers "
        f"{assessment.baseline_text}.{chance} Oracle metrics: computed from the records without "
        f"noise, and outside the certificate. They are shown because {why}."
    )
    parts: list[Part] = [Table(rows, heads=("", "baseline", *models), look="numbers"), note]
    if training.curves:
        parts.append(curves_drawing(training))
    return (Section("Accuracy on test records", parts),)


def _figures(
    training: Training, assessment: Assessment, measured: Sequence[Metrics]
) -> list[tuple[str, ...]]:
    """Return the figures on the test records: name, baseline, then each of the models."""
    known = [one.assessment for one in measured if one.assessment is not None]
    baseline = _error(training, assessment.baseline_error)
    errors = [_error(training, one.test_error) for one in measured]
    rows = [(f"test {error_name(training)}", baseline, *errors)]
    rows.append(("test loss", "", *(f"{one.test_loss:.4f}" for one in measured)))
    weighted = [one.weighted for one in known if one.weighted is not None]
    if assessment.weighted is not None:
        least = percent(assessment.weighted.baseline_error)
        shares = [percent(one.error) for one in weighted]
        rows.append(("test error with the class weights", least, *shares))
    if assessment.r2 is not None:
        rows.append(("R^2", "0", *(f"{one.r2:.3f}" for one in known)))
    if assessment.auc is not None:
        rows.append(("AUC", "0.5", *(f"{one.auc:.3f}" for one in known)))
    rows += _scores_of_probabilities([one.probabilities for one in known])
    for label, share in assessment.named():
        if share is not None:
            shares = [percent(dict(one.recall or ())[label] or 0.0) for one in known]
            always = percent(float(label == assessment.baseline))
            rows.append((f"recall of {label!r}", always, *shares))
    return rows


def _scores_of_probabilities(
    known: Sequence[ProbabilityScores | None],
) -> list[tuple[str, ...]]:
    """Return the Brier score and the calibration error; a model without probabilities has none."""
    scores = [one for one in known if one is not None]
    if not scores:
        return []
    briers = ["none" if one is None else f"{one.brier:.4f}" for one in known]
    errors = ["none" if one is None else percent(one.calibration_error) for one in known]
    chances = ["none" if one is None else percent(one.calibration_chance) for one in known]
    name = f"calibration error ({scores[0].bins} bins)"
    return [
        ("Brier score", f"{scores[0].baseline_brier:.4f}", *briers),
        (name, "", *errors),
        ("calibration error by chance", "", *chances),
    ]


def _data(training: Training) -> list[tuple[str, str]]:
    dataset = training.dataset
    records, columns = dataset.features.shape
    tests = f"{records - dataset.train_rows:,} test records of {columns} columns"
    trained = f"{dataset.train_rows:,} training"
    if training.proposal.budget.unit != "record":  # the numbers of rows of persons are private
        trained = training.proposal.units_text
    return [
        ("name", f"{dataset.title} ({dataset.name})"),
        ("size", f"{trained} and {tests}"),
        ("source", dataset.source),
        ("licence", dataset.licence),
    ]


def curves_drawing(training: Training) -> Drawing:
    """Draw test error and test loss of the released model by round.

    A dashed line is the non-private optimum, if it was computed; a dotted one is the baseline.
    """
    best = training.nonprivate if training.dataset.public else None
    number = training.dataset.task == "regression"
    factor, unit = (1, "units of the target") if number else (100, "%")

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        if training.assessment is not None:
            level = factor * training.assessment.baseline_error
            left.axhline(level, color=_BASELINE, linestyle=":", label="baseline")
        title = f"test {error_name(training)}, {unit}"
        panels = ((left, title, "test_error", factor), (right, "test loss", "test_loss", 1))
        for axes, title, name, by in panels:
            values = by * training.curves[name]
            rounds, marker = np.arange(1, len(values) + 1), "o" if len(values) <= 30 else ""
            axes.plot(
                rounds, values, color=BLUE, marker=marker, markersize=3.5, label="released model"
            )
            if best is not None:
                level = by * getattr(best, name)
                axes.axhline(level, color=_REFERENCE, linestyle="--", label="non-private optimum")
            label_axes(axes, title, "round")
            axes.locator_params(axis="x", integer=True)
            axes.set_ylim(bottom=0)
            axes.legend(frameon=False, fontsize=9)

    return drawing("Test error and test loss of the released model after every round", 3.1, draw)
