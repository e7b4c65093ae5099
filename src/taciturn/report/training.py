"""The page of a training, for people who do not know the library."""

from __future__ import annotations

import math
from collections.abc import Sequence

from taciturn.report.figures import curves_drawing
from taciturn.report.page import Note, Page, Part, Section, Table, percent
from taciturn.report.results import between_agents, error_name
from taciturn.report.sections import UNPROTECTED, run_page, score_sections, settings_section
from taciturn.training import Assessment, Metrics, Training


def training_page(training: Training) -> Page:
    """Return the page of a training."""
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
    counted = {"agent": len(proposal.counts), "round": training.plan.rounds}
    agents, rounds = (f"{n} {what}{'' if n == 1 else 's'}" for what, n in counted.items())
    text = (
        f"{agents} trained one {kind} together on {proposal.units_text}, in {rounds} of "
        f"{proposal.method.name}: no agent showed its records, each answered questions about them "
        f"{noise}."
    )
    score = training.private_score
    if score is not None:
        text += (
            f" {score.records:,} {score.unit}s more were held out and asked how good the model is, "
            "privately."
        )
    if not training.shows_test:
        hidden = " The data is not public, so how well the model does is not shown."
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
    """Return a fraction in per cent, or a number in the units of the target."""
    return f"{value:.4g}" if training.dataset.task == "regression" else percent(value)


def _between(training: Training) -> tuple[Section, ...]:
    """Return `between_agents` as a section; none where it is None."""
    between = between_agents(training)
    if between is None:
        return ()
    rows = [(name, "{:.4g} to {:.4g}".format(*between[name])) for name in ("mu", "epsilon")]
    note = (
        "For an agent that hears its neighbours only and does not learn the released model, from "
        "the best to the worst protected pair; who learns the model too is covered by the "
        f"certificate. Why it is not less: {between['reason']}."
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
        chance = f" An AUC of 0.5 is chance, with a standard error of {assessment.auc_error:.2g}."
    note = Note(
        f"On {assessment.records:,} test records. The baseline always answers "
        f"{assessment.baseline_text}.{chance} Oracle metrics: computed from the records "
        f"themselves, without noise and outside the certificate. They are shown because {why}."
    )
    parts: list[Part] = [Table(rows, heads=("", "baseline", *models), look="numbers"), note]
    if training.curves:
        parts.append(curves_drawing(training))
    return (Section("How well it does", parts),)


def _figures(
    training: Training, assessment: Assessment, measured: Sequence[Metrics]
) -> list[tuple[str, ...]]:
    """Return figures on the test records: their name, of the baseline, of each model."""
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
    for label, share in assessment.named():
        if share is not None:
            shares = [percent(dict(one.recall or ())[label] or 0.0) for one in known]
            always = percent(float(label == assessment.baseline))
            rows.append((f"recall of {label!r}", always, *shares))
    return rows


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
