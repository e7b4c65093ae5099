"""What a proposal would cost one site, what would leave it, and what it would have left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from taciturn.algorithms import Method
from taciturn.budget import Account, check_fits, total_of
from taciturn.engine.charging import purpose_of
from taciturn.errors import InputError
from taciturn.problems import Draw
from taciturn.report import (
    promise,
    strict,
)
from taciturn.tables import Source
from taciturn.training import warnings_of
from taciturn_federation.agreement import SignedProposal
from taciturn_federation.answering import layouts_of
from taciturn_federation.keys import public_key
from taciturn_federation.local import Local, derive
from taciturn_federation.paying import charged_account
from taciturn_federation.sites import SiteFolder

_MASKED = ", and so are the masks under which only the sum over all sites can be read"


@dataclass(frozen=True)
class Check:
    """What a site derived from a proposal and its own file; nothing was spent.

    Attributes
    ----------
    rounds
        In how many it answers, and how many bytes each of its messages has.
    account
        What the account has, and whether the run fits; None where none was named.
    """

    local: Local
    rounds: int
    message_bytes: int
    account: Mapping[str, str] | None

    @property
    def values(self) -> dict[str, Any]:
        """The same as strictly valid JSON values."""
        local = self.local
        values: dict[str, Any] = strict(
            {
                "study": local.signed.study,
                "run": local.signed.subjects.run,
                "site": local.name,
                "code": local.signed.code,
                "agent": local.agent,
                "answers": int(local.plan.ledger.asked[local.agent].sum()),
                "rounds": self.rounds,
                "message_bytes": self.message_bytes,
                "own_epsilon": local.certificate.per_agent_epsilon[local.agent],
                "certificate": local.certificate.to_dict(),
                "account": None if self.account is None else dict(self.account),
                "warnings": warnings_of(local.signed.proposal),
            }
        )
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
        told = self.account
        line = f"Account {told['account']} ({told['promise']}): left {told['left']}"
        if told["refused"]:
            return [f"{line}; {told['refused']}"]
        return [f"{line}, after this run {told['left_after']}"]


def check_proposal(
    site: SiteFolder,
    signed: SignedProposal,
    methods: Mapping[str, Method],
    *,
    source: Source,
    account: Account | None,
) -> Check:
    """Return what a site derives from a proposal and its file.

    Raises
    ------
    InputError
        If the proposal is refused; see `taciturn_federation.local.derive`.
    """
    agent = site.take_part(signed)
    local = derive(
        signed,
        source,
        agent=agent,
        coordinator=public_key(site.invitation.key),
        methods=methods,
    )
    told = None if account is None else _of_account(account, local)
    size = layouts_of(local.plan.program).message.size
    turns = local.answering(local.records(Draw.secret())).turns
    return Check(local, len(turns), size, told)


def _of_account(account: Account, local: Local) -> dict[str, str]:
    state = account.state()
    told = {
        "account": account.name,
        "promise": promise(state.guarantee),
        "left": state.left_text(),
        "left_after": "",
        "refused": "",
    }
    try:
        charge = local.charge
        charged_account(account, local)
        check_fits(state, charge, purpose_of(local.plan, local.signed.study))
    except InputError as error:  # there is no room, or the noise has no place in an account
        return told | {"refused": str(error)}
    total = total_of(state.terms, state.caps.order, [*(r.charge for r in state.charged), charge])
    left = replace(
        total,
        squares=state.caps.squares - total.squares,
        divergence=state.caps.divergence - total.divergence,
        values=state.caps.values - total.values,
    )
    return told | {"left_after": state.left_text(left)}
