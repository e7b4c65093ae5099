"""What each end is shown: a site before a run, and all parties after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import taciturn
from taciturn.algorithms import Method
from taciturn.budget import Account, check_fits, total_of
from taciturn.certificates import stated
from taciturn.engine import Charged, Plan
from taciturn.engine.charging import purpose_of
from taciturn.errors import InputError
from taciturn.features import AroundCentre
from taciturn.kernel.privacy import Certificate
from taciturn.kernel.records import Draw
from taciturn.models import Model, model_text
from taciturn.report import (
    CERTIFIED,
    NOT_PROTECTED,
    UNPROTECTED,
    Items,
    Page,
    Section,
    Table,
    account_section,
    certificate_section,
    certificate_text,
    charged_line,
    charged_values,
    counted,
    json_text,
    plan_values,
    promise,
    score_sections,
    settings_section,
    stamps,
    strict,
    write_folder,
)
from taciturn.tables import Source
from taciturn.training import PrivateScore, model_of, table_model_terms, warnings_of
from taciturn.typing import HostArray
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.folders import SiteFolder
from taciturn_federation.interface import Outcome
from taciturn_federation.keys import public_key
from taciturn_federation.local import Local, certificate_for, derive, last_question, layouts_of
from taciturn_federation.site import charged_account

_MASKED = ", and so are the masks under which only the sum over all sites can be read"


@dataclass(frozen=True)
class Check:
    """What a site derived from a proposal and its own file; nothing was spent."""

    local: Local
    rounds: int  # in which it answers
    message_bytes: int  # of each of its messages
    # what the account has, and whether the run fits; None where none was named
    account: Mapping[str, str] | None

    @property
    def values(self) -> dict[str, Any]:
        """The same as strictly valid JSON values."""
        local, signed, agent = self.local, self.local.signed, self.local.agent
        values: dict[str, Any] = strict({
            "study": signed.study, "run": signed.subjects.run, "site": local.name,
            "code": signed.code, "agent": agent,
            "answers": int(local.plan.ledger.asked[agent].sum()), "rounds": self.rounds,
            "message_bytes": self.message_bytes,
            "own_epsilon": local.certificate.per_agent_epsilon[agent],
            "certificate": stated(local.certificate),
            "account": None if self.account is None else dict(self.account),
            "warnings": warnings_of(signed.proposal),
        })  # fmt: skip
        return values

    @property
    def lines(self) -> list[str]:
        """The same as sentences for the owner."""
        local, signed = self.local, self.local.signed
        proposal, plan = signed.proposal, local.plan
        asked = plan.ledger.asked[local.agent]
        key = signed.participants[local.agent].fingerprint
        others = [site.name for site in signed.participants if site.name != local.name]
        return [
            f"Study {signed.study}, run {signed.subjects.run}: {proposal.method.name}, "
            f"{plan.rounds} rounds, with {', '.join(others) or 'nobody else'}",
            "Signed by the study's coordinator; the file has the columns and the count that it "
            "states",
            f"This site is {local.name}, number {local.agent}, signing key {key}",
            *self._of_keys(),
            "",
            "Certificate, as this site derives it",
            *(f"  {line}" for line in local.certificate.lines()),
            "",
            f"What leaves the house: {self.rounds} messages of {self.message_bytes:,} bytes, "
            f"functions of {int(asked.sum())} noised answers; the noise is drawn here"
            f"{_MASKED if plan.program.summed else ''}",
            *self._of_last(),
            f"What it costs: epsilon {local.certificate.per_agent_epsilon[local.agent]:.4f} at "
            f"delta {local.certificate.delta:g} for records of this site",
            *self._of_account(),
            *(f"Warning: {warning}" for warning in warnings_of(proposal)),
            "Nothing was sent and nothing spent",
        ]

    def _of_keys(self) -> list[str]:
        """Return what the owners compare where masks rest on it that the sites are theirs."""
        if not self.local.plan.program.summed:
            return []
        return [
            "Before you run it, compare this code with the other owners by telephone, and not with "
            "the coordinator: if all have the same, nobody stands in for one of you to read the "
            "answers of another",
            f"  taciturn site run --agreed {self.local.signed.code}",
        ]

    def _of_last(self) -> list[str]:
        last, agent = self.local.last, self.local.agent
        if last is None or agent not in last.agents:
            return []
        (leaf,) = last.layout.leaves
        return [
            f"Then one answer of {leaf.shape[0]} noised numbers about the records that are held "
            "out, told to all; no record is in both"
        ]

    def _of_account(self) -> list[str]:
        if self.account is None:
            return ["Account: none named; --account says what is left and charges the run"]
        account = self.account
        line = f"Account {account['account']} ({account['promise']}): left {account['left']}"
        if account["refused"]:
            return [f"{line}; {account['refused']}"]
        return [f"{line}, after this run {account['left_after']}"]


def check_proposal(
    site: SiteFolder,
    signed: SignedProposal,
    methods: Mapping[str, Method],
    *,
    source: Source,
    account: Account | None,
) -> Check:
    """Return what a site derives from a proposal and its file; raise as `derive`."""
    coordinator, agent = public_key(site.invitation.key), site.take_part(signed)
    local = derive(signed, source, agent=agent, coordinator=coordinator, methods=methods)
    stands = None if account is None else _of_account(account, local)
    size = layouts_of(local.plan.program).message.size
    turns = local.answering(local.records(Draw.secret())).turns
    return Check(local, len(turns), size, stands)


def _of_account(account: Account, local: Local) -> dict[str, str]:
    state = account.state()
    stands = {"account": account.name, "promise": promise(state.guarantee),
              "left": state.left_text(), "left_after": "", "refused": ""}  # fmt: skip
    try:
        charge = local.charge
        charged_account(account, local)
        check_fits(state, charge, purpose_of(local.plan, local.signed.study))
    except InputError as error:  # there is no room, or the noise has no place in an account
        return stands | {"refused": str(error)}
    total = total_of(state.terms, state.caps.order, [*(r.charge for r in state.charged), charge])
    names = ("squares", "divergence", "values")
    left = {name: getattr(state.caps, name) - getattr(total, name) for name in names}
    return stands | {"left_after": state.left_text(replace(total, **left))}


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A run that is over, as one party knows it."""

    signed: SignedProposal
    plan: Plan
    outcome: Outcome
    # how good the model is by noised counts of held-out records; None without an evaluation
    score: PrivateScore | None
    seconds: float  # wall time of the run
    agent: int | None = None  # the number of the site whose report it is; None: the coordinator's
    charged: Charged | None = None  # where the site's run was charged; None if nowhere

    @property
    def certificate(self) -> Certificate:
        """The certificate of the run; without a model that of the plan."""
        stated: Certificate | None = self.outcome.certificate
        if stated is not None:
            return stated
        proposal = self.signed.proposal
        return certificate_for(proposal, self.plan, last_question(proposal, self.plan))

    @property
    def who(self) -> str:
        """Whose report it is."""
        if self.agent is None:
            return "the coordinator"
        return self.signed.participants[self.agent].name

    @property
    def model(self) -> Model | None:
        """The released model in the units of the columns; None without one."""
        weights: HostArray | None = self.outcome.model
        if weights is None:
            return None
        proposal, features = self.signed.proposal, self.signed.proposal.data.feature_map
        if self.outcome.centre is not None:
            inputs = proposal.data.inputs
            features = AroundCentre(inputs, features, np.asarray(self.outcome.centre))
        terms = table_model_terms(proposal, features, weights)
        score = None if self.score is None else self.score.to_dict()
        return model_of(proposal, terms, self.certificate, features=features,
                        data=self.signed.study, private_score=score)  # fmt: skip


def ended_values(ended: Ended, out: Path | None) -> dict[str, Any]:
    """Return the results as strictly valid JSON values.

    **Guarantee.** Public facts of the proposal, the certificate, and post-processing of what was
    released. A site's has its own account besides, which is its owner's to show.
    """
    signed, proposal, certificate = ended.signed, ended.signed.proposal, ended.certificate
    own: dict[str, Any] = {}
    if ended.agent is not None:
        own = {"site": ended.who, "own_epsilon": certificate.per_agent_epsilon[ended.agent],
               "account": charged_values(ended.charged)}  # fmt: skip
    values: dict[str, Any] = strict({
        "study": signed.study, "run": signed.subjects.run, "ending": ended.outcome.ending,
        "said": ended.outcome.line, "algorithm": proposal.method.name,
        "sites": [site.name for site in signed.participants],
        **counted(proposal),
        "rounds": ended.plan.rounds,
        **{name: getattr(certificate, name) for name in CERTIFIED},
        "conditions": certificate.conditions, "conditional": proposal.conditional,
        "private_score": None if ended.score is None else ended.score.to_dict(),
        "seconds": ended.seconds, "out": None if out is None else str(out),
        "warnings": warnings_of(proposal), "proposal": signed.digest, "plan": ended.plan.digest,
        "version": taciturn.__version__,
        **own,
    })  # fmt: skip
    return values


def save_ended(ended: Ended, out: Path, *, force: bool) -> Path | None:
    """Write the report of a run into a folder, whole or not at all.

    Returns the file of the certificate; None without a model. Raises as `write_folder`.
    """
    signed, model = ended.signed, ended.model
    texts = {
        "results.json": json_text(ended_values(ended, out)),
        "proposal.json": signed.to_json() + "\n",
        "plan.json": json_text(plan_values(ended.plan)),
        "report.html": ended_page(ended).html(),
    }
    certificate = None
    if model is not None:
        texts["model.json"] = model_text(model)
        certificate = certificate_text(
            ended.plan, ended.certificate, data=signed.study, proposal=signed.digest,
            algorithm=signed.proposal.method.name,
        )  # fmt: skip
    return write_folder(texts, out, force=force, obsolete=("model.json",), certificate=certificate)


def ended_page(ended: Ended) -> Page:
    """Return the page of a run of a study, as one party knows it."""
    signed, certificate = ended.signed, ended.certificate
    sites = [
        (site.name, f"{site.count:,}; signing key {site.fingerprint}")
        for site in signed.participants
    ]
    return Page(
        title=f"Study {signed.study}, as {ended.who} reports it",
        story=(_story(ended),),
        stamps=stamps(certificate, warnings_of(signed.proposal)),
        sections=(
            *([] if ended.outcome.model is None else [certificate_section(certificate)]),
            *_local_sections(ended),
            *score_sections(ended.score),
            Section("Sites", (Table(sites),)),
            settings_section(signed.proposal, ended.plan, certificate),
            Section(NOT_PROTECTED, (Items(UNPROTECTED),)),
        ),
        footer=f"{ended.seconds:.1f} s. Run {signed.digest}, plan {ended.plan.digest}.",
    )


def lines_of(ended: Ended, certificate: Path | None) -> list[str]:
    """Return what is said on the terminal when a run is over."""
    told = [_capital(ended.outcome.line)]
    if ended.outcome.model is not None:
        told += ["", "Certificate", *(f"  {line}" for line in ended.certificate.lines()), ""]
    if ended.agent is not None:
        told.append(charged_line(ended.charged))
    told += [] if ended.score is None else [*ended.score.lines(), ""]
    told.append(f"Took {ended.seconds:.1f} s")
    if certificate is not None:
        out = certificate.parent
        told += [f"Report: {out / 'report.html'}", f"Model: {out / 'model.json'}"]
        told.append(f"Certificate: {certificate}")
    return told


def _story(ended: Ended) -> str:
    signed, proposal = ended.signed, ended.signed.proposal
    return (
        f"{len(signed.participants)} sites, each with a signing key of its own, trained one model "
        f"together on {proposal.units_text}, in {ended.plan.rounds} rounds of "
        f"{proposal.method.name}. What they sent are answers with noise that each draws itself, "
        "and no records. On which machines they ran is not known here. "
        f"{_capital(ended.outcome.line)}."
    )


def _local_sections(ended: Ended) -> tuple[Section, ...]:
    """Return what a site's report has besides: its answers, its epsilon and its account."""
    if ended.agent is None:
        return ()
    asked = ended.plan.ledger.asked[ended.agent]
    rows = [
        ("site", ended.who),
        ("answers", f"{int(asked.sum())} of {asked.size} questions of the plan"),
        ("epsilon of this site", f"{ended.certificate.per_agent_epsilon[ended.agent]:.4g}"),
    ]
    return (Section("This site", (Table(rows),)), account_section(ended.charged))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
