"""From the entries of an account to its balance and head, and from these to a verdict."""

import math
import os
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import closing
from fractions import Fraction
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

from taciturn_verify import charges
from taciturn_verify.charges import Pair, find_largest, spread
from taciturn_verify.judging import Verdict
from taciturn_verify.reading import Fields, RefusedError, demand, parse, read_object

TABLE = (
    b"table entries CREATE TABLE entries "
    b"(number INTEGER PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL) STRICT"
)
FORMS = {
    "entry": "kind:word when:text balance:object",
    "kind account": "format:text version:count id:text name:text salt:text guarantee:guarantee "
    "terms:terms",
    "kind reserved": "run:text charge:charge share:costs purpose:object process:natural "
    "table?:text",
    "kind opened": "run:text",
    "kind returned": "run:text",
    "kind files": "run:text digests:text*",
    "kind closed": "run:text result:released/failed charge?:charge share?:costs instead_of?:costs",
    "kind raised": "guarantee:guarantee",
    "kind accepted": "why:text",
    "guarantee": "epsilon:positive delta:level curves:number order:count|null",
    "terms": "relation:text unit:text observer:text colluders:natural",
    "charge": "relation:text unit:text messages:agents summed:agents|null colluders:natural "
    "values:natural least_scale:number|null partition:text|null dealt:flag",
    "agents": "lists:event** agents:pair*",
    "event": "event:text multiplier:positive count:count rate?:share batch?:count records?:count",
    "costs": "costs:triple* values:natural partition:text|null",
}
# what was known of a run before an entry about it
BEFORE = {"reserved": ["new"], "opened": ["reserved"], "returned": ["reserved"]}
BEFORE |= {"files": ["reserved", "opened"], "closed": ["opened"]}
NOTHING = (Fraction(0), Fraction(0))


class Account:
    """What the entries so far amount to."""

    def __init__(self) -> None:
        self.digests = ["0" * 64]
        self.opening, self.caps, self.guarantee = Fields(), Fields(), dict[str, Any]()
        self.runs: dict[str, Fields] = {}
        self.sums: dict[str | None, list[Pair]] = {None: [NOTHING]}  # by the names of divisions
        self.values = self.count = 0
        self.tables: dict[str, None] = {}
        self.noted: list[tuple[int, str]] = []  # entries that a head should cover
        self.accepted: list[str] = []

    def follow(self, given: int, body: bytes, digest: bytes) -> None:
        """Take in the next row, or refuse it."""
        number, before = len(self.digests), self.digests[-1]
        self.digests.append(sha256(f"{before}\n{number}\n".encode() + body).hexdigest())
        kept = (given, digest.decode()) == (number, self.digests[-1])
        demand(kept, "it was edited, or one before it was removed")
        content = parse(body.decode())
        entry = read_object("entry", content, "the entry", FORMS)
        kind, run = entry.kind, self.runs.get(content.get("run"), Fields(status="new"))
        demand((kind == "account") == (number == 1), "entry 1, and no other, opens an account")
        demand(run.status in BEFORE.get(kind, ["new"]), f"a run that is {run.status} was {kind}")
        if kind in ("account", "raised"):
            self.promise(entry, content["guarantee"])
        elif kind == "accepted":
            self.accepted.append(f"entry {number}, by which its owner accepted the file")
        elif kind != "files":
            run.status = vars(entry).get("result", kind)
            self.charge(run, entry, content)
        caps, total = vars(self.caps), self.find_total()
        over = [name for name in total if total[name] > caps[name] * (1 + 1e-9)]
        demand(not over, f"more {', '.join(over)} are charged than the guarantee has room for")
        same = {"tables": [], **content["balance"]} == self.describe()
        demand(same, "its balance is not that of the entries up to it")

    def promise(self, entry: Fields, guarantee: Any) -> None:
        """Take a guarantee, which must not be smaller than that before."""
        caps = charges.find_caps(**guarantee)
        if entry.kind == "account":
            known = (entry.format, entry.version) == ("taciturn.account", 2)
            demand(known, "the account is of another version")
            self.opening = entry
        else:
            pairs = [(guarantee[name], self.guarantee[name]) for name in ("epsilon", "delta")]
            pairs += [(getattr(caps, n), getattr(self.caps, n)) for n in self.find_total()]
            same = caps.order == self.caps.order or not self.caps.divergence
            demand(same and all(new >= old for new, old in pairs), "the guarantee became smaller")
            self.noted.append((len(self.digests) - 1, "raised the guarantee"))
        self.guarantee, self.caps = guarantee, caps

    def charge(self, run: Fields, entry: Fields, content: Any) -> None:
        """Take in an entry about a run."""
        if entry.kind == "reserved":
            parts = [part for part in ("when", "share", "table") if part in content]
            run.parts, self.runs[entry.run] = {part: content[part] for part in parts}, run
            self.add(content["share"], entry.charge)
        elif entry.kind == "opened":
            run.opened = len(self.digests) - 1
            self.tables |= {run.parts["table"]: None} if "table" in run.parts else {}
        elif entry.kind == "returned":
            self.add(run.parts["share"])
        early = {"charge", "share", "instead_of"} & content.keys()
        if entry.kind == "closed" and early:
            reserved = len(early) == 3 and content["instead_of"] == run.parts["share"]
            demand(reserved, "another share is taken back than was reserved")
            self.add(run.parts["share"])
            self.add(content["share"], entry.charge)
            self.noted.append((len(self.digests) - 1, "lowered a charge"))

    def add(self, share: Any, charge: Fields | None = None) -> None:
        """Add the share of a charge to the sums, or, without one, take it out of them."""
        costs, name, sign = spread(share["costs"]), share["partition"], 1 if charge else -1
        if charge:
            needed = charges.find_costs(charge, self.opening.terms, self.caps.order)
            consistent = (charge.values, name) == (share["values"], charge.partition)
            demand(consistent and len(needed) == len(costs), "a share is not that of its charge")
            for (a, b), (c, d) in zip(costs, needed, strict=True):
                paid = math.isclose(a, c, rel_tol=1e-9) and b >= d - 1e-9 * (d + 1)
                demand(paid, "a share is less than its charge costs")
        before = self.sums.get(name, [NOTHING] * len(costs))
        demand(len(before) == len(costs), "a division has another number of agents")
        pairs = [(sign * Fraction(a), sign * Fraction(b)) for a, b in costs]
        self.sums[name] = [(a + c, b + d) for (a, b), (c, d) in zip(before, pairs, strict=True)]
        self.values, self.count = self.values + sign * share["values"], self.count + sign

    def find_total(self) -> dict[str, float]:
        """Return what the record that the runs cost most is charged."""
        squares, divergences = zip(*map(find_largest, self.sums.values()), strict=True)
        sums = {"squares": float(sum(squares)), "divergence": float(sum(divergences))}
        return {**sums, "values": self.values}

    def find_doubts(self, head: int) -> list[str]:
        """Return what the guarantee is conditional on; refuse a head that was moved back."""
        opened = [(run.opened, run.status) for run in self.runs.values() if "opened" in vars(run)]
        late = [number for number, status in opened if number > head and status == "released"]
        demand(not late, f"the head is entry {head}, before a run that was released: it was moved")
        noted = self.noted + [(number, "opened a run") for number, _ in opened]
        late = [f"entry {n}, after the head, which {what}" for n, what in noted if n > head]
        return self.accepted + late

    def summarise(self) -> dict[str, Any]:
        """Return what a board wants to know, without a name of a run, a site or a division."""
        total, caps, terms = self.find_total(), vars(self.caps), self.opening.terms
        spent, left = charges.find_epsilons(self.guarantee, caps, total)
        epsilon, delta = self.guarantee["epsilon"], self.guarantee["delta"]
        colluding = f" and {terms.colluders} colluding" if terms.observer == "sum" else ""
        hidden = f"one {terms.unit} ({terms.relation}), from an observer of {terms.observer}"
        ends = Counter(run.status for run in self.runs.values())
        shown = ("released", "failed", "opened", "reserved", "returned")
        return {
            "account": f"{self.opening.id[:12]}, opened {self.opening.when}",
            "hidden": f"{hidden}{colluding}",
            "guarantee": f"epsilon {epsilon:g} at delta {delta:g}, of all runs together",
            "runs": ", ".join(f"{ends[end]} {end}" for end in shown),
            **{f"share_of_{n}_spent": total[n] / caps[n] for n in total if caps[n]},
            "epsilon_spent": spent,
            "epsilon_left": left,
            "entries": len(self.digests) - 1,
            "digest": self.digests[-1],
        }

    def describe(self) -> dict[str, Any]:
        """Return the balance."""
        sums: dict[str | None, Any] = {
            name: [[len([*same]), str(a), str(b)] for (a, b), same in groupby(pairs)]
            for name, pairs in self.sums.items()
        }
        once, runs = sums.pop(None)[0][1:], self.runs.items()
        return {
            "first": self.digests[1] if len(self.digests) > 2 else None,
            "guarantee": self.guarantee,
            "waiting": {name: run.parts for name, run in runs if run.status == "reserved"},
            "tables": [*self.tables],
            "once": once,
            "divided": sums,
            "values": self.values,
            "runs": self.count,
        }


def verify_account(file: Path) -> Verdict:
    """Return whether the guarantee of an account follows from its file and head.

    Raises `OSError` if these cannot be read.
    """
    account, figures, place = Account(), dict[str, Any](), ""
    try:
        kept, opened = read_heads(file)  # first, since others may add entries meanwhile
        for row in read_rows(file):
            place = f"entry {len(account.digests)}: "
            account.follow(*row)
        place, digests = "", account.digests
        demand(len(digests) > 1, "the account has no entries")
        figures = account.summarise()
        heads, alone = kept[account.opening.id], opened in (None, account.opening.id)
        demand(alone, "another account was opened under this name, or accepted")
        known = all(number < len(digests) and digests[number] == head for number, head in heads)
        demand(known, "the head is none of the entries: these were cut or replaced")
        doubts = account.find_doubts(max(heads)[0]) if heads else ["no head is at hand"]
    except RefusedError as refused:
        return Verdict("does not follow", f"{place}{refused}", figures)
    except sqlite3.OperationalError as error:
        raise OSError(f"{error}; copy it, with its -wal, to a folder of your own") from error
    except sqlite3.Error as error:
        return Verdict("does not follow", f"the database is damaged: {error}", figures)
    except (ArithmeticError, TypeError, ValueError):  # as of 1.0 agents
        return Verdict("does not follow", f"{place}a number cannot be computed with", figures)
    if doubts:
        return Verdict("conditional on", "; ".join(doubts), figures)
    return Verdict("follows", "every charge is in the balance and within the caps", figures)


def read_rows(file: Path) -> list[tuple[int, bytes, bytes]]:
    """Return the rows of the database and its log, without writing to them."""
    still = "" if file.with_name(f"{file.name}-wal").exists() else "&immutable=1"
    address = f"{file.resolve(strict=True).as_uri()}?mode=ro{still}"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        connection.text_factory = bytes  # digests are of bytes
        found = connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
        alone = b" ".join(b" ".join(map(bytes, row)) for row in found).strip() == TABLE
        demand(alone, "the database holds something else than a table of entries")
        return connection.execute("SELECT * FROM entries ORDER BY number").fetchall()


def read_heads(file: Path) -> tuple[Mapping[str, list[tuple[int, str]]], str | None]:
    """Return the heads here, by account, and which account was opened under this name."""
    home = "~/Library/Application Support" if sys.platform == "darwin" else "~/.local/state"
    usual = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA") or home
    named = os.environ.get("TACITURN_STATE_DIR") or f"{usual}/taciturn"
    folder, heads = Path(named).expanduser() / "heads", defaultdict[str, list[Any]](list)
    for head in [*folder.glob("*.head"), *file.parent.glob("*.head")]:
        content = head.read_bytes()
        for number, *rest in filter(None, (content[:160].split(), content[160:].split())):
            if [sha256(b" ".join([number, *rest[:1]])).hexdigest().encode()] == rest[1:]:
                heads[head.stem].append((int(number), rest[0].decode()))
    place = folder / f"place-{sha256(os.fsencode(file.resolve())).hexdigest()[:32]}.id"
    return heads, place.read_text() if place.exists() else None
