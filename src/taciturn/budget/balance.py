"""The state of an account, computed from its entries: guarantee, charges, reservations, history.

Every entry holds the balance after it, which its digest covers. A reader recomputes the balances
from the entries and compares.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from taciturn.budget.caps import Caps, Guarantee, caps_of
from taciturn.budget.charge import (
    AccountTerms,
    Charge,
    Purpose,
    Share,
    Sums,
    Total,
    largest_cost,
    share_of,
)
from taciturn.budget.store import Entry, add, canonical
from taciturn.errors import AccountError, InputError
from taciturn.kernel.privacy import epsilon_of

FORMAT, VERSION = "taciturn.account", 2
Status: TypeAlias = Literal["reserved", "opened", "released", "failed", "returned"]
_ROUNDING = 1e-9  # relative difference in the cost of a charge between machines
_MOST_KNOWN = 64  # states that this process caches


@dataclass(frozen=True)
class Balance:
    """An account without its history.

    - `identity`, `name`, `salt`: Identity and salt are random.
    - `waiting`: Reservations without a mark, by run: time, share, and table if there is one.
    - `tables`: Digests of the columns of the tables that runs have read (`table_digest`).
    """

    identity: str
    name: str
    salt: str
    opened: str
    terms: AccountTerms
    first: str  # the digest of the first entry, which holds the terms
    last: Entry  # the last entry
    guarantee: Guarantee
    sums: Sums = field(default_factory=Sums)  # over all charges that were not returned
    waiting: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tables: tuple[str, ...] = ()

    @property
    def caps(self) -> Caps:
        """The caps derived from the guarantee."""
        return caps_of(self.guarantee)

    @property
    def total(self) -> Total:
        """The sums of all charges."""
        return self.sums.total

    @property
    def left(self) -> Total:
        """The remaining room under the caps."""
        total, caps = self.total, self.caps
        return Total(
            max(0.0, caps.squares - total.squares),
            max(0.0, caps.divergence - total.divergence),
            max(0, caps.values - total.values),
        )

    def epsilon_left(self, left: Total | None = None) -> float:
        """Return the largest epsilon, at the account's delta, of a run that fits, for planning.

        It holds for a run whose answers are all Gaussian, without guarantee. `left`: the room under
        the caps; None for the present one.
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

    def after(self, content: Mapping[str, Any]) -> Balance:
        """Return the balance after an entry with this content; `last` does not change."""
        guarantee, sums, waiting, tables = self.guarantee, self.sums, {**self.waiting}, self.tables
        match content["kind"]:
            case "reserved":
                sums = sums.plus(Share.from_dict(content["share"]))
                parts = ("when", "share", "table")
                waiting[content["run"]] = {name: content[name] for name in parts if name in content}
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
        return dataclasses.replace(
            self, guarantee=guarantee, sums=sums, waiting=waiting, tables=tables
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the part that an entry holds, as JSON-safe values."""
        return {
            "first": self.first,
            "guarantee": dataclasses.asdict(self.guarantee),
            "waiting": {run: dict(one) for run, one in self.waiting.items()},
            "tables": list(self.tables),
            **self.sums.to_dict(),
        }


def opening_content(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a first entry, with time and balance."""
    sums = {"waiting": {}, "tables": [], **Sums().to_dict()}
    balance = {"first": None, "guarantee": content["guarantee"], **sums}
    return {**_dated(content), "format": FORMAT, "version": VERSION, "balance": balance}


def record(connection: sqlite3.Connection, balance: Balance, content: Mapping[str, Any]) -> Balance:
    """Write the next entry and return its balance; the caller holds the lock."""
    content = _dated(content)
    after = balance.after(content)
    entry = add(connection, balance.last, {**content, "balance": after.to_dict()})
    return dataclasses.replace(after, last=entry)


def balance_of(first: Entry, last: Entry) -> Balance:
    """Return the balance that entry `last` holds, of the account with this first entry.

    The chain and its balances must have been checked (`read_state`). Raises `InputError` if the
    first entry is of another version.
    """
    held = last.content["balance"]
    return dataclasses.replace(
        _opened(first),
        last=last,
        guarantee=Guarantee(**held["guarantee"]),
        sums=Sums.from_dict(held),
        waiting=held["waiting"],
        tables=tuple(held.get("tables", ())),  # absent in accounts of earlier versions
    )


def _opened(first: Entry) -> Balance:
    content = first.content
    if content.get("format") != FORMAT or content["version"] != VERSION:
        raise InputError(
            f"this version of taciturn reads accounts of version {VERSION} only, and this one has "
            "another; use the version that wrote it"
        )
    return Balance(
        identity=content["id"],
        name=content["name"],
        salt=content["salt"],
        opened=content["when"],
        terms=AccountTerms(**content["terms"]),
        first=first.digest,
        last=first,
        guarantee=Guarantee(**content["guarantee"]),
    )


def _dated(content: Mapping[str, Any]) -> dict[str, Any]:
    return {**content, "when": datetime.now(UTC).isoformat(timespec="seconds")}


@dataclass(frozen=True)
class ChargedRun:
    """A run in an account.

    `number`: of its first entry. `share`: its part in the sums. `files`: salted digests of the
    files that it read.
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
    """A raised guarantee or an accepted account, with time and description."""

    number: int
    when: str
    what: str


@dataclass(frozen=True)
class State(Balance):
    """An account computed from all its entries: the balance and its history."""

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

    def cost(self, run: ChargedRun) -> Total:
        """Return a run's cost to the agent it costs most, for the account's observer."""
        return largest_cost(self.terms, self.caps.order, run.charge)


# states computed by this process, by the digest of the last entry; never read from disk
_KNOWN: dict[str, State] = {}


def read_state(name: str, entries: Sequence[Entry]) -> State:
    """Return the state of an account from its entries, whose digests were checked.

    Raises `InputError` if an entry is not one that this version writes, its balance is not that of
    the entries before it, or the account has another name.

    **Guarantee.** Equal digests, computed from the stored entries, imply equal entries from the
    first one on. Entries up to one whose state this process has computed are therefore not
    replayed.
    """
    with _understood(name):
        known = next((e.digest for e in reversed(entries) if e.digest in _KNOWN), None)
        state = _replay(entries, None if known is None else _KNOWN.get(known))
    _KNOWN[state.last.digest] = state
    for digest in list(_KNOWN)[:-_MOST_KNOWN]:  # a copy, since other threads may add to it
        _KNOWN.pop(digest, None)
    if state.name != name:
        raise InputError(
            f"the file of account {name!r} is the account {state.name!r}; give it its name back"
        )
    return state


@contextmanager
def _understood(name: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"account {name!r} does not hold what an account holds; put the right file back"
        ) from error


def _follow(balance: Balance, entries: Sequence[Entry]) -> Iterator[Balance]:
    """Yield the balance after each entry, compared with the one that the entry holds."""
    for entry in entries:
        balance = dataclasses.replace(balance.after(entry.content), last=entry)
        now = {**balance.to_dict(), "first": balance.first if entry.number > 1 else None}
        # "tables" is absent in accounts of earlier versions
        if now != {"tables": [], **entry.content["balance"]}:
            raise InputError(
                f"the balance of account {balance.name!r} in entry {entry.number} is not that of "
                "its entries; put the right file back, or open a new account"
            )
        yield balance


def _replay(entries: Sequence[Entry], known: State | None) -> State:
    """Return the state after all entries; `known` is the state after some of the first ones."""
    if known is None:
        balance, runs, changes = _opened(entries[0]), {}, []
    else:
        balance, entries = known.balance, entries[known.last.number :]
        runs, changes = {run.run: run for run in known.runs}, list(known.changes)
    for after in _follow(balance, entries):
        before, balance = balance, after
        entry, content = balance.last, balance.last.content
        run = None
        if content["kind"] in _BEFORE:
            run = _run_after(runs.get(content["run"]), entry)
            if "share" in content:
                _check_share(balance, run)
            runs[run.run] = run
        elif entry.number > 1:
            check_larger(before, balance.guarantee)
            changes.append(Change(entry.number, content["when"], _change_text(balance)))
        _check_form(content, run, balance)
    return State(**vars(balance), runs=tuple(runs.values()), changes=tuple(changes))


# the status that a run must have for an entry about it
_BEFORE: Mapping[str, tuple[str | None, ...]] = MappingProxyType({
    "reserved": (None,),
    "opened": ("reserved",),
    "returned": ("reserved",),
    "closed": ("opened",),
    "files": ("reserved", "opened"),
})  # fmt: skip


# the fields of an entry, besides those of every entry
_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "account": ("format version id name salt guarantee terms",),
    "reserved": ("run charge share purpose process", "run charge share purpose process table"),
    "opened": ("run",),
    "returned": ("run",),
    "closed": ("run result", "run result charge share instead_of"),
    "files": ("run digests",),
    "raised": ("guarantee",),
    "accepted": ("why",),
})  # fmt: skip
_PARTS = frozenset(["balance", "guarantee", "terms", "charge", "share", "instead_of", "purpose"])
_TYPES = MappingProxyType({"version": int, "process": int, "digests": list})


def _check_form(content: Mapping[str, Any], run: ChargedRun | None, balance: Balance) -> None:
    """Raise `ValueError` unless an entry has the fields and types that this version writes."""
    known = [{"kind", "when", "balance", *names.split()} for names in _FIELDS[content["kind"]]]
    parts: dict[str, Any] = {"guarantee": dataclasses.asdict(balance.guarantee)}
    parts["terms"] = dataclasses.asdict(balance.terms)
    if run is not None and "share" in content:
        parts |= {"charge": run.charge.to_dict(), "share": run.share.to_dict()}
    if (
        set(content) not in known
        or any(type(content[n]) is not _TYPES.get(n, str) for n in content.keys() - _PARTS)
        or any(canonical(content[n]) != canonical(parts[n]) for n in content.keys() & parts)
    ):
        raise ValueError("an entry is not written as this version writes it")


def _run_after(run: ChargedRun | None, entry: Entry) -> ChargedRun:
    """Return a run after an entry about it.

    An entry that this library never writes at that point, such as a second end of a run, is forged.
    """
    content = entry.content
    kind, before = content["kind"], None if run is None else run.status
    if before not in _BEFORE[kind]:
        raise ValueError(f"a run that is {before} was {kind}")
    if run is None:
        return ChargedRun(
            run=content["run"],
            number=entry.number,
            when=content["when"],
            purpose=Purpose.from_dict(content["purpose"]),
            charge=Charge.from_dict(content["charge"]),
            process=content["process"],
            share=Share.from_dict(content["share"]),
        )
    if kind == "files":
        return dataclasses.replace(run, files=tuple(content["digests"]))
    if kind != "closed":
        return dataclasses.replace(run, status=kind)
    if content["result"] not in ("released", "failed"):
        raise ValueError("a run ended in a way that is not known")
    run = dataclasses.replace(run, status=content["result"])
    if "share" not in content:
        return run
    # others ended the run early: it is charged for the answers given
    if content["instead_of"] != run.share.to_dict():
        raise ValueError("another share was taken back than the one that was reserved")
    charge, share = Charge.from_dict(content["charge"]), Share.from_dict(content["share"])
    return dataclasses.replace(run, charge=charge, share=share)


def _check_share(balance: Balance, run: ChargedRun) -> None:
    """Raise `InputError` unless a run's share is that of its events and fits, up to rounding."""
    _check_lattice(balance.caps, run.charge)
    right, share = share_of(balance.terms, balance.caps.order, run.charge), run.share
    like = len(right.costs) == len(share.costs) and all(
        math.isclose(a.squares, b.squares, rel_tol=_ROUNDING)
        and math.isclose(a.divergence, b.divergence, rel_tol=_ROUNDING)
        for a, b in zip(right.costs, share.costs, strict=True)
    )
    like = like and _within(balance.total, balance.caps, 1 + _ROUNDING)
    if not like or (right.values, right.partition) != (share.values, share.partition):
        raise InputError(
            f"account {balance.name!r} holds a run whose cost is not that of its events, or does "
            "not fit; put the right file back, or use the version of taciturn that wrote it"
        )


def _change_text(balance: Balance) -> str:
    """Return the change recorded by the last entry, which concerns no run."""
    content, now = balance.last.content, balance.guarantee
    match content["kind"]:
        case "raised":
            return f"raised: the guarantee is epsilon {now.epsilon:g} at delta {now.delta:g}"
        case "accepted":
            return str(content["why"])
        case kind:
            raise InputError(
                f"account {balance.name!r} holds an entry of the kind {kind!r}, which a later "
                "version of taciturn wrote; use that version"
            )


def check_larger(state: Balance, guarantee: Guarantee) -> None:
    """Raise `AccountError` unless a guarantee may replace that of an account."""
    before = state.guarantee
    if guarantee.epsilon < before.epsilon or guarantee.delta < before.delta:
        raise AccountError(
            f"account {state.name!r} has epsilon {before.epsilon:g} at delta {before.delta:g}; the "
            "guarantee of answers already given cannot become smaller, so give larger ones"
        )
    old, new = state.caps, caps_of(guarantee)
    if old.divergence > 0 and new.order != old.order:
        raise AccountError(
            f"divergences are added up at the order {old.order} in account {state.name!r}, and the "
            f"order was fixed when it was opened; leave --order out"
        )
    if new.squares < old.squares or new.divergence < old.divergence or new.values < old.values:
        raise AccountError(
            "a cap would become smaller, and runs were chosen while it was larger: that on numbers "
            "falls as epsilon grows beyond some 20, and rises with delta; give a larger delta too, "
            "another epsilon, or change the share of the curves by less"
        )


def salted(salt: str, content: bytes) -> str:
    """Return the salted digest of a file, given the digest of its content."""
    return hashlib.sha256(bytes.fromhex(salt) + content).hexdigest()


def table_digest(salt: str, columns: Iterable[str]) -> str:
    """Return the salted digest of the names of a table's columns, in any order."""
    return salted(salt, json.dumps(["columns", *sorted(set(columns))]).encode())


def check_table(balance: Balance, table: str) -> None:
    """Raise `AccountError` if an account was charged, and only for tables of another digest.

    Reservations that have not read a record count, so of two simultaneous first runs one is
    refused.
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
    """Raise `AccountError` if another account was charged for a file of one of these digests.

    **Guarantee.** A change of a record changes the file for both accounts: whether the two files
    are the same depends on no record, unless a record determined what was written into the file.
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


_NOTHING_FITS = "no run like it fits; taciturn budget raise gives the account a larger guarantee"


def check_fits(state: Balance, charge: Charge, purpose: Purpose) -> None:
    """Raise `AccountError` unless every cap holds with a charge added.

    The message states the remaining room and a run that would fit: the largest epsilon of a run
    whose answers are all Gaussian, else the most rounds at its noise. Raises `InputError` if the
    charge does not suit the terms of the account.

    **Guarantee.** Each cap is at least the sum of all charges, the new one included: the condition
    under which the filters of `taciturn.budget.caps` hold. Noise on a coarser lattice than these
    assume, or on none, is refused.
    """
    caps = state.caps
    _check_lattice(caps, charge)
    cost = largest_cost(state.terms, caps.order, charge)
    if math.isfinite(cost.squares + cost.divergence):
        total = state.sums.plus(share_of(state.terms, caps.order, charge)).total
        if _within(total, caps):
            return
    raise AccountError(_refusal(state, cost, charge.values, purpose))


def _within(total: Total, caps: Caps, factor: float = 1.0) -> bool:
    """Whether no sum is above its cap times a factor."""
    names = ("squares", "divergence", "values")
    return all(getattr(total, name) <= factor * getattr(caps, name) for name in names)


def _check_lattice(caps: Caps, charge: Charge) -> None:
    if not charge.least_scale >= caps.least_scale:
        raise AccountError(
            f"the noise of this run is not on a lattice of at least {caps.least_scale:g} steps to "
            "its scale, which the account assumes; use Gaussian or Laplace noise that is added to "
            "the answer"
        )


def _refusal(state: Balance, cost: Total, values: int, purpose: Purpose) -> str:
    left = state.left
    parts = [
        f"account {state.name!r} has no room for this run, so nothing was charged and no record "
        f"read; the remaining budget is {state.left_text()}"
    ]
    if cost.divergence > 0 and state.caps.divergence == 0:
        return (
            f"{parts[0]}; the account was opened without a share for answers that are not Gaussian "
            "on all records: use those, or taciturn budget raise with --curves"
        )
    if left.values >= values:
        return "; ".join([*parts, _would_fit(state, cost, purpose)])
    parts.append(
        f"it releases {values:,} numbers, of which the account admits {left.values:,} more"
    )
    rounds = left.values * purpose.rounds // values
    if rounds < 1:
        more = "taciturn budget raise with a larger delta lets it release more numbers"
        return "; ".join([*parts, f"no run like it fits; {more}"])
    parts.append(f"at most {rounds} of its {purpose.rounds} rounds release no more")
    if cost.squares <= left.squares and cost.divergence <= left.divergence:
        return "; ".join(parts)
    return "; ".join([*parts, f"besides, {_would_fit(state, cost, purpose)}"])


def _would_fit(state: Balance, cost: Total, purpose: Purpose) -> str:
    left = state.left
    shares = [math.inf]
    shares += [left.squares / cost.squares] if cost.squares > 0 else []
    shares += [left.divergence / cost.divergence] if cost.divergence > 0 else []
    share = min(shares)
    if cost.divergence == 0 and purpose.mu is not None and math.isfinite(purpose.mu):
        # the lattice costs a plan of that epsilon less than a millionth
        mu = purpose.mu * math.sqrt(share) * (1 - 1e-6)
        epsilon = _down(epsilon_of(purpose.delta, mu)) if share < 1 else purpose.epsilon
        if epsilon > 0:
            return f"the largest epsilon that would fit is {epsilon:g} at delta {purpose.delta:g}"
    elif math.floor(share * purpose.rounds) >= 1:
        rounds = math.floor(share * purpose.rounds * (1 - 1e-9))
        return f"at this noise at most {rounds} of its {purpose.rounds} rounds would fit"
    return _NOTHING_FITS


def _down(epsilon: float) -> float:
    """Return an epsilon rounded down to four significant digits."""
    if epsilon <= 0:
        return 0.0
    unit: float = 10.0 ** (math.floor(math.log10(epsilon)) - 3)
    return float(f"{math.floor(epsilon / unit * (1 - 1e-9)) * unit:.4g}")
