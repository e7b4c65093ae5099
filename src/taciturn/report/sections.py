"""What pages of several kinds of run share: their order, certificate, account, settings, score."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from taciturn.engine import Charged, Run
from taciturn.engine.planning import Plan, describe
from taciturn.kernel.privacy import Certificate
from taciturn.problems import Named
from taciturn.report.accounts import NOWHERE, promise, shares
from taciturn.report.page import Bars, Items, Note, Page, Part, Section, Table, spread
from taciturn.training import PrivateScore, Proposal, Training, centre_text, network_rows
from taciturn.training import percent as percent_with_interval

NOT_PROTECTED = "What is not protected"
UNPROTECTED = (
    "The settings above, the number of agents, their record counts and the number of rounds: "
    "all are public by assumption.",
    "How long the run took, and how much was sent.",
    "What the data says about the population: a model that predicts well reveals that, whether "
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
    """Return the page of a run: its certificate and account, further sections, what is unprotected.

    The footer says what took its seconds, and what the folder holds beside the plan.
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
            "reproduction, not private: the noise came from a given seed, and whoever knows the "
            "seed can draw it again"
        )
    if math.isinf(certificate.epsilon):
        texts.append("no privacy: no noise was added")
    return (*texts, *(f"warning: {text}" for text in warnings))


def certificate_section(certificate: Certificate) -> Section:
    """Return the certificate in a frame, red where nothing firm is promised."""
    conditional, reproduction = certificate.conditional, certificate.reproduction
    total, firm = "epsilon = infinity: no privacy", False
    if math.isfinite(certificate.epsilon):
        first = "Conditional: " if conditional else ""
        epsilon = math.ceil(certificate.epsilon * 1e4 - 1e-6) / 1e4  # never rounded down
        only_if = " if the noise were secret" if reproduction else ""
        total = f"{first}epsilon = {epsilon:.4f}, delta = {certificate.delta:g}{only_if}"
        firm = not reproduction and not conditional
    attacker = Note(f"The attacker knows everything but one {certificate.unit}.")
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
        "Shares of the caps: charged before (grey), by this run (orange), left (light). The "
        "account as it was when this run ended; what is left is what may still be asked; the "
        "guarantee is the account's."
    )
    return Section("Account", (Table(rows), Bars(bars), Note(note)))


def score_sections(score: PrivateScore | None) -> tuple[Section, ...]:
    """Return a private score, with its calibration, as a section; none where there is no score."""
    if score is None:
        return ()
    bins = [
        (f"{part.low:.2f} to {part.high:.2f}", percent_with_interval(part.share))
        for part in score.calibration or ()
    ]
    parts: list[Part] = [score.head, Table(score.rows())]
    if bins:
        caption = "Observed share of records, by their predicted probability"
        parts.append(Table(bins, caption=caption))
    note = (
        f"One noised answer of each agent, covered by the certificate: these {score.unit}s were "
        f"not trained on, so the whole costs a {score.unit} no more than the training alone."
    )
    return (Section("How good it is, answered privately", (*parts, Note(note))),)


def settings_section(proposal: Proposal, plan: Plan, certificate: Certificate) -> Section:
    """Return the settings of a run; all of them are public."""
    note = Note("All of it was fixed before any record was touched.")
    return Section("Settings", (Table(settings(proposal, plan, certificate)), note))


def settings(proposal: Proposal, plan: Plan, certificate: Certificate) -> list[tuple[str, str]]:
    """Return (name, value) of every setting of the run; all of them are public."""
    counts, ledger = plan.spec.counts, plan.ledger
    places = "records" if proposal.budget.unit == "record" else "places for rows of persons"
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
        ("constraint", str(proposal.constraint)),
        ("agents", f"{len(counts)}, with {spread(counts)} {places} each"),
        ("rounds", str(plan.rounds)),
        ("model coordinates", str(plan.spec.dimension)),
        ("record norm, at most", f"{plan.spec.record_norm:g}"),
        ("gradient of one record, norm at most", f"{plan.spec.gradient_bound:.4g}"),
        ("noise multiplier (scale / sensitivity)", f"{plan.multiplier:.5g}"),
        ("noise scale of an answer", spread(ledger.scale[ledger.asked])),
    ]
    rows = [(name, text) for name, text in stated if text is not None]
    if plan.network is not None:
        rows += [
            *network_rows(proposal, plan),
            ("answers of an agent", spread(np.sum(ledger.asked, axis=(1, 2)))),
            ("epsilon of an agent", spread(certificate.per_agent_epsilon)),
        ]
    if ledger.sampled:
        rows += [("sampling rate of the batches", spread(ledger.rate))]
    rows += [(_NAMES.get(k, k), _over_time(v)) for k, v in plan.schedules.items()]
    fields = describe(plan.program.algorithm).items()
    rows += [(_NAMES.get(k, k), f"{v:g}") for k, v in fields if isinstance(v, float)]
    rows += [("precision", plan.precision)]
    if proposal.data.table is None or certificate.reproduction:  # else a secret draw divides them
        rows += [("split seed", str(proposal.split_seed))]
    return rows


def _over_time(values: Any) -> str:
    if np.all(values == values.flat[0]):
        return spread(values)
    return f"{spread(values[..., 0])} in the first round, {spread(values[..., -1])} in the last"
