"""The balance of an account: what its last entry says of all of them, and how the next one does.

Every entry holds the sums over all entries up to itself, so that a charge is decided on two of
them, whatever their number; the digest of an entry covers its balance like all that it holds.
"""

from __future__ import annotations

import dataclasses
import math
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from taciturn.budget.caps import Caps, Guarantee, caps_of
from taciturn.budget.store import Entry, add
from taciturn.budget.sums import Share, Sums, Total
from taciturn.budget.terms import AccountTerms
from taciturn.errors import InputError
from taciturn.privacy import epsilon_of

FORMAT, VERSION = "taciturn.account", 2


@dataclass(frozen=True)
class Balance:
    """An account without its history: what is promised, charged and waiting.

    Attributes
    ----------
    identity, name, salt
        The first and last are random.
    opened
        When.
    sums
        Over all charges that were not returned.
    waiting
        Reservations without a mark: by run, its time, its share, and its table if it has one.
    tables
        Digests of the columns of the tables that runs read (`taciturn.budget.state`).
    first
        The digest of the first entry, which holds the terms.
    last
        The last entry.
    """

    identity: str
    name: str
    salt: str
    opened: str
    guarantee: Guarantee
    terms: AccountTerms
    sums: Sums
    waiting: Mapping[str, Mapping[str, Any]]
    tables: tuple[str, ...]
    first: str
    last: Entry

    @property
    def standing(self) -> Standing:
        """What entries change of it."""
        return Standing(self.guarantee, self.sums, self.waiting, self.tables)

    @property
    def caps(self) -> Caps:
        """The caps that follow from the guarantee."""
        return caps_of(self.guarantee)

    @property
    def total(self) -> Total:
        """What is charged."""
        return self.sums.total

    @property
    def left(self) -> Total:
        """What the caps leave."""
        total, caps = self.total, self.caps
        return Total(
            max(0.0, caps.squares - total.squares),
            max(0.0, caps.divergence - total.divergence),
            max(0, caps.values - total.values),
        )

    def epsilon_left(self, left: Total | None = None) -> float:
        """Return the largest epsilon of a run that fits at the account's delta, in one number.

        Of a run whose answers are all Gaussian, against the observer of the account. It is what a
        run may be planned for, and no guarantee.

        Parameters
        ----------
        left
            What the caps leave; None for what they leave now.
        """
        left = self.left if left is None else left
        if left.values <= 0:
            return 0.0
        return epsilon_of(self.guarantee.delta, math.sqrt(max(0.0, left.squares)))

    def left_text(self, left: Total | None = None) -> str:
        """Return `epsilon_left` as text, rounded down, with the observer of the account."""
        epsilon = math.floor(self.epsilon_left(left) * 1e4) / 1e4
        delta = self.guarantee.delta
        return f"epsilon {epsilon:.4f} at delta {delta:g} (observer {self.terms.observer_text})"


@dataclass(frozen=True)
class Standing:
    """What an entry changes of a balance."""

    guarantee: Guarantee
    sums: Sums
    waiting: Mapping[str, Mapping[str, Any]]
    tables: tuple[str, ...] = ()

    def after(self, content: Mapping[str, Any]) -> Standing:
        """Return what holds after an entry with this content."""
        guarantee, sums, waiting = self.guarantee, self.sums, dict(self.waiting)
        tables = self.tables
        match content["kind"]:
            case "reserved":
                sums = sums.plus(Share.from_dict(content["share"]))
                kept = ("when", "share", "table")
                waiting[content["run"]] = {name: content[name] for name in kept if name in content}
            case "opened":
                table = waiting.pop(content["run"]).get("table")
                tables += () if table is None or table in tables else (table,)
            case "returned":
                sums = sums.minus(Share.from_dict(waiting.pop(content["run"])["share"]))
            case "closed" if "share" in content:
                sums = sums.minus(Share.from_dict(content["instead_of"]))
                sums = sums.plus(Share.from_dict(content["share"]))
            case "raised":
                guarantee = Guarantee(**content["guarantee"])
        return Standing(guarantee, sums, waiting, tables)

    def to_dict(self, first: str | None) -> dict[str, Any]:
        """Return it as JSON-safe values, with the digest of the first entry."""
        return {
            "first": first,
            "guarantee": dataclasses.asdict(self.guarantee),
            "waiting": {run: dict(one) for run, one in self.waiting.items()},
            "tables": list(self.tables),
            **self.sums.to_dict(),
        }


def standing_of(entry: Entry) -> tuple[Standing, str]:
    """Return what an entry says of all entries up to it, and the digest of the first one."""
    content = entry.content
    held = content["balance"]
    # accounts of earlier versions name no tables
    standing = Standing(
        Guarantee(**held["guarantee"]),
        Sums.from_dict(held),
        held["waiting"],
        tuple(held.get("tables", ())),
    )
    return standing, entry.digest if entry.number == 1 else held["first"]


def balance_of(first: Entry, last: Entry) -> Balance:
    """Return the balance of an account by its first entry and its last, whose digests were checked.

    Raises
    ------
    InputError
        If the first entry is of another version of the library, or not the one that the last names.
    """
    content = first.content
    if content.get("format") != FORMAT or content["version"] != VERSION:
        raise InputError(
            f"the account is of another version than {VERSION}, which is the one that this version "
            "of taciturn reads; use the one that wrote it"
        )
    standing, digest = standing_of(last)
    if digest != first.digest:
        raise InputError(
            f"account {content['name']!r} was edited or is damaged: its last entry follows another "
            "first one; put the right file back, or open a new account"
        )
    return Balance(
        identity=content["id"],
        name=content["name"],
        salt=content["salt"],
        opened=content["when"],
        terms=AccountTerms(**content["terms"]),
        first=digest,
        last=last,
        **vars(standing),
    )


def opening(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a first entry with its balance."""
    standing = Standing(Guarantee(**content["guarantee"]), Sums(), {})
    return {**content, "balance": standing.to_dict(None)}


def moved(balance: Balance, last: Entry) -> Balance:
    """Return the balance after entries that follow it, the last of which is given."""
    standing, digest = standing_of(last)
    if digest != balance.first:
        raise InputError(f"account {balance.name!r} was edited while a run was under way")
    return dataclasses.replace(balance, last=last, **vars(standing))


def record(connection: sqlite3.Connection, balance: Balance, content: Mapping[str, Any]) -> Balance:
    """Write the next entry with its balance, and return that; the caller holds the lock."""
    content = dated(content)
    standing = balance.standing.after(content)
    written = {**content, "balance": standing.to_dict(balance.first)}
    entry = add(connection, balance.last, written)
    return dataclasses.replace(balance, last=entry, **vars(standing))


def dated(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of an entry with the time."""
    return {**content, "when": datetime.now(UTC).isoformat(timespec="seconds")}
