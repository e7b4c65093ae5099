"""What the entries of an account say, read and checked one after the other."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from taciturn.budget.balance import Balance, Standing, balance_of, standing_of
from taciturn.budget.caps import Guarantee
from taciturn.budget.charge import Charge, Cost
from taciturn.budget.store import Entry
from taciturn.budget.sums import Share, Sums, largest_cost, share_of
from taciturn.budget.terms import Purpose
from taciturn.errors import AccountError, InputError

# by which a cost may differ on another machine
_ROUNDING = 1e-9
Status: TypeAlias = Literal["reserved", "opened", "released", "failed", "returned"]


@dataclass(frozen=True)
class ChargedRun:
    """A run as an account holds it.

    Attributes
    ----------
    number
        Of its first entry.
    share
        What it takes.
    files
        Salted digests of the files that it read.
    """

    run: str
    number: int
    when: str
    purpose: Purpose
    charge: Charge
    process: int
    share: Share
    status: Status = "reserved"
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """A raised guarantee, or an account that was accepted as it is: when, and in words."""

    number: int
    when: str
    what: str


@dataclass(frozen=True)
class State(Balance):
    """An account as all of its entries have it: the balance, and the history behind it."""

    runs: tuple[ChargedRun, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def charged(self) -> tuple[ChargedRun, ...]:
        """The runs that were not returned."""
        return tuple(run for run in self.runs if run.status != "returned")

    @property
    def balance(self) -> Balance:
        """The account without its history."""
        names = (one.name for one in dataclasses.fields(Balance))
        return Balance(**{name: getattr(self, name) for name in names})

    def cost(self, run: ChargedRun) -> Cost:
        """Return what a run costs the agent that it costs most, as the observer sees it."""
        return largest_cost(self.terms, self.caps.order, run.charge)

    def run(self, run: str) -> ChargedRun:
        """Return the run of that name."""
        return next(one for one in self.runs if one.run == run)


def state_of(entries: Sequence[Entry]) -> State:
    """Return the state of an account whose chain has been checked.

    Raises
    ------
    InputError
        If an entry is not one that this version of the library writes, or its balance is not that
        of the entries before it.
    """
    balance = balance_of(entries[0], entries[-1])
    runs: dict[str, ChargedRun] = {}
    changes: list[Change] = []
    opened = Standing(Guarantee(**entries[0].content["guarantee"]), Sums(), {})
    for entry, guarantee in followed(balance, opened, entries):
        content = entry.content
        if content["kind"] in _OF_RUNS:
            run = _told(runs, entry.number, content)
            if "share" in content:
                _check_share(balance, guarantee, run)
            runs[run.run] = run
        elif entry.number > 1:
            changes.append(Change(entry.number, content["when"], _changed(balance, entry)))
    return State(**vars(balance), runs=tuple(runs.values()), changes=tuple(changes))


# what a run must be for an entry about it
_BEFORE: Mapping[str, tuple[str | None, ...]] = MappingProxyType({
    "reserved": (None,),
    "opened": ("reserved",),
    "returned": ("reserved",),
    "closed": ("opened",),
    "files": ("reserved", "opened"),
})  # fmt: skip
_OF_RUNS = frozenset(_BEFORE)


def _told(runs: Mapping[str, ChargedRun], number: int, content: Mapping[str, Any]) -> ChargedRun:
    """Return the run that an entry is about, after it.

    An entry that no run of this library writes at that point, as a second end of a run, was put
    there by somebody else.
    """
    before = runs[content["run"]].status if content["run"] in runs else None
    if before not in _BEFORE[content["kind"]]:
        raise ValueError(f"a run that is {before} was {content['kind']}")
    match content["kind"]:
        case "reserved":
            return _reserved(number, content)
        case "closed":
            return _closed(runs[content["run"]], content)
        case "files":
            return _with(runs[content["run"]], files=tuple(content["digests"]))
        case status:
            return _with(runs[content["run"]], status=status)


def _changed(balance: Balance, entry: Entry) -> str:
    """Return what an entry about the account changed, in words."""
    content = entry.content
    match content["kind"]:
        case "raised":
            return _raised(Guarantee(**content["guarantee"]))
        case "accepted":
            return str(content["why"])
        case kind:
            raise InputError(
                f"account {balance.name!r} holds an entry of the kind {kind!r}, which a later "
                "version of taciturn wrote; use that version"
            )


def followed(
    balance: Balance, before: Standing, entries: Sequence[Entry]
) -> Iterator[tuple[Entry, Guarantee]]:
    """Yield entries with the guarantee after each, their balances compared with the replay.

    Raises
    ------
    InputError
        If one does not follow from that before it by what its entry says.
    """
    for entry in entries:
        found, first = standing_of(entry)
        before = before.after(entry.content)
        if found != before or first != balance.first:
            raise InputError(
                f"the balance of account {balance.name!r} in entry {entry.number} is not that of "
                "its entries; put the right file back, or open a new account"
            )
        yield entry, found.guarantee


def _check_share(balance: Balance, guarantee: Guarantee, run: ChargedRun) -> None:
    """Raise `InputError` unless a run's share is that of its events, but for rounding."""
    now = dataclasses.replace(balance, guarantee=guarantee)
    right, share = share_of(now.terms, now.caps.order, run.charge), run.share
    pairs = zip(right.costs, share.costs, strict=False)
    like = len(right.costs) == len(share.costs) and all(
        math.isclose(a.squares, b.squares, rel_tol=_ROUNDING)
        and math.isclose(a.divergence, b.divergence, rel_tol=_ROUNDING)
        for a, b in pairs
    )
    if not like or (right.values, right.partition) != (share.values, share.partition):
        raise InputError(
            f"account {balance.name!r} holds a run whose cost is not that of its events; put the "
            "right file back, or use the version of taciturn that wrote it"
        )


def _raised(guarantee: Guarantee) -> str:
    return f"raised: the guarantee is epsilon {guarantee.epsilon:g} at delta {guarantee.delta:g}"


def _closed(run: ChargedRun, content: Mapping[str, Any]) -> ChargedRun:
    """Return a run that has ended; one that others ended early costs what was answered."""
    answered, charge, share = content.get("charge"), run.charge, run.share
    if answered is not None:
        charge, share = Charge.from_dict(answered), Share.from_dict(content["share"])
        if Share.from_dict(content["instead_of"]) != run.share:
            raise ValueError("another share was taken back than the one that was reserved")
    return _with(run, status=content["result"], charge=charge, share=share)


def _with(run: ChargedRun, **changed: Any) -> ChargedRun:
    return dataclasses.replace(run, **changed)


def _reserved(number: int, content: Mapping[str, Any]) -> ChargedRun:
    purpose = {name: _number(value) for name, value in content["purpose"].items()}
    return ChargedRun(
        run=content["run"],
        number=number,
        when=content["when"],
        purpose=Purpose(**purpose),
        charge=Charge.from_dict(content["charge"]),
        process=int(content["process"]),
        share=Share.from_dict(content["share"]),
    )


def _number(value: Any) -> Any:
    return math.inf if value == "infinity" else value


def salted(salt: str, content: bytes) -> str:
    """Return the salted digest of a file, given the digest of its content."""
    return hashlib.sha256(bytes.fromhex(salt) + content).hexdigest()


def table_digest(salt: str, columns: Iterable[str]) -> str:
    """Return the salted digest of the names of a table's columns, in whatever order.

    Examples
    --------
    >>> table_digest("00", ("age", "ill")) == table_digest("00", ("ill", "age"))
    True
    """
    return salted(salt, json.dumps(["columns", *sorted(set(columns))]).encode())


def check_table(balance: Balance, table: str) -> None:
    """Raise `AccountError` if an account was charged, and only for tables with other columns.

    Parameters
    ----------
    table
        Its digest.

    Notes
    -----
    Reservations that have not read a record count, so that of two first runs at a time one waits.
    """
    waiting = (one.get("table") for one in balance.waiting.values())
    known = {*balance.tables, *(one for one in waiting if one is not None)}
    if known and table not in known:
        raise AccountError(
            f"account {balance.name!r} was charged for a table with other columns than this one, "
            "so nothing is charged and no record read: its guarantee is of one body of records. "
            "Open an account for this table; if the records are the same, pass --another-table "
            "(another_table=True of Account)"
        )


def check_files(balance: Balance, contents: Iterable[bytes], others: Iterable[State]) -> None:
    """Raise `AccountError` if another account was charged for one of these files.

    Parameters
    ----------
    contents
        The digests of the files.
    others
        The accounts to look into.

    Notes
    -----
    **Guarantee.** Had a record been another one, the file that the other account was charged for
    would have held that one too: whether both are the same file does not depend on any record, as
    long as what was written into the file did not.
    """
    digests = list(contents)
    for other in others:
        known = {digest for run in other.charged for digest in run.files}
        if other.identity != balance.identity and known & {salted(other.salt, d) for d in digests}:
            raise AccountError(
                f"a file of this run was charged to account {other.name!r}, so nothing is charged "
                f"to account {balance.name!r} and no record read: the guarantees of both would add "
                f"up for its records. Charge account {other.name!r}; if both are meant, pass "
                "--another-account (another_account=True of Account)"
            )
