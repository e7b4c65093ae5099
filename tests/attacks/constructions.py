"""Every construction against every question, one by one, and the table of what they did.

It is a search: a ratio above 1 is proof of a violation, and ratios up to 1 are none of its absence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product

from tests.attacks.orders import ORDERED, worst_order
from tests.attacks.outputs import off_lattice, porous, power, tails
from tests.attacks.queries import hostile, shifted_slots
from tests.attacks.subjects import FIXED, OF_TARGETS, ORACLES, Finding, precisions_of, subject_named

from taciturn.cli.console import table
from taciturn.kernel.privacy import Laplace, Relation, ReplaceOne, ZeroOut
from taciturn.typing import Precision

PRECISIONS: tuple[Precision, ...] = ("float32", "float64")
BATCHES = ("mini-batch gradient", "mini-batch difference")


@dataclass(frozen=True)
class Size:
    """How much is tried; `FULL` takes hours."""

    orders: tuple[tuple[int, int], ...] = ((40_000, 4),)  # records and columns for the sums
    relations: tuple[Relation, ...] = (ZeroOut(),)  # how the neighbours differ
    together: tuple[bool, ...] = (False,)  # answers one by one, vectorised, or both
    trials: int = 10  # random pairs of data sets and queries of every kind
    records: tuple[int, ...] = (99,)  # of an agent in these
    runs: int = 40  # on each of two data sets, where outputs are attacked
    power: int = 60_000  # records of an agent whose runs are attacked end to end
    draws: int = 0  # of the noise, for its tails


QUICK = Size()
FULL = Size(
    orders=((400, 4), (40_000, 4), (400_000, 4), (40_000, 104), (4_000, 784)),
    relations=(ReplaceOne(), ZeroOut()),
    together=(False, True),
    trials=100,
    records=(99, 400, 4_000),
    runs=300,
    power=100_000,
    draws=10**8,
)

# besides one record and Gaussian noise: all records of an agent, and the 1-norm
OF_AGENTS = ("gradient", "gradient, ten classes", "statistics", "projected step", "proximal step")
IN_ONE_NORM = ("gradient", "statistics", "proximal step")

Construction = Callable[[], tuple[Finding, ...]]


def constructions(size, seed):
    """Yield the constructions, each to be called; they are independent of one another."""
    yield from _sums(size)
    for precision in PRECISIONS:
        yield from _queries(size, precision, seed)
        yield partial(_gaps, precision, size.runs, seed)
    yield partial(_lattice, size.runs, seed)
    yield partial(_power, size)
    if size.draws:
        yield lambda: tuple(tails(precision, draws=size.draws) for precision in PRECISIONS)


def _sums(size):
    for shape, name, together in product(size.orders, ORDERED, size.together):
        for relation in _relations(name, size):
            yield partial(_ordered, name, relation, shape, together=together)


def _queries(size, precision, seed):
    for name in BATCHES:
        yield partial(_shifted, name, precision, size.trials, seed)
    for name in ORACLES:
        if precision not in precisions_of(name):
            continue
        for relation in _relations(name, size):
            yield partial(_worst, name, relation, precision, size, seed)
    for name in OF_AGENTS:
        yield partial(_worst, name, ReplaceOne(), precision, size, seed, unit="agent")
    for name in IN_ONE_NORM:
        yield partial(_worst, name, ReplaceOne(), precision, size, seed, mechanism=Laplace())


def _relations(name, size):
    """Return the relations that make a difference: some questions have one alone."""
    return size.relations[:1] if name in (*OF_TARGETS, FIXED) else size.relations


def _ordered(name, relation, shape, *, together):
    records, columns = shape
    subject, size = subject_named(name, records, relation), {"records": records, "columns": columns}
    return (worst_order(subject, precisions_of(name)[0], **size, together=together),)


def _shifted(name, precision, trials, seed):
    # 60 slots are read at a time: rows beyond a multiple of 8 are summed in another order
    records = 99
    size = {"records": records, "columns": 20, "trials": 5 * trials}
    return (shifted_slots(subject_named(name, records, ZeroOut()), precision, **size, seed=seed),)


def _worst(name, relation, precision, size, seed, *, unit="record", mechanism=None):
    """Return the kind of query that did worst, for every number of records."""
    worst = []
    for records in size.records:
        subject = subject_named(name, records, relation, unit=unit, mechanism=mechanism)
        trials = max(1, size.trials * size.records[0] // records)
        found = hostile(subject, precision, records=records, columns=7, trials=trials, seed=seed)
        worst.append(max(found, key=lambda finding: finding.ratio))
    return tuple(worst)


def _gaps(precision, runs, seed):
    return (_of_rate("gaps of the noise", precision, porous(precision, runs=runs, seed=seed)),)


def _lattice(runs, seed):
    return (_of_rate("exact answer off the lattice", "float64", off_lattice(runs=runs, seed=seed)),)


def _of_rate(construction, precision, rate):
    shown = f"{construction}, {rate.errors} errors in {rate.runs} runs"
    return Finding(
        "gradient", shown, precision, rate.records, rate.columns, rate.columns, rate.ratio
    )


def _power(size):
    seen = power(records=size.power, runs=3 * size.runs)
    low, high = seen.true_positives
    shown = (
        f"runs end to end, {low:.0%} to {high:.0%} true positives where {seen.allowed:.1%} "
        "are allowed"
    )
    return (Finding("gradient", shown, "float32", size.power, 2, 2, seen.ratio),)


def table_of(found):
    """Return a row for each finding."""
    rows = [
        (f.oracle, f.construction, f"{f.records} x {f.columns}", f.precision, _shown(f.ratio))
        for f in found
    ]
    return table([("oracle", "construction", "size", "precision", "change / bound"), *rows])


def _shown(ratio):
    """Return a ratio so that what is above 1 is seen to be."""
    return f"1 + {ratio - 1:.1e}" if 1 < ratio < 1.00001 else f"{ratio:.6g}"


def verdict_on(found):
    """Return in words whether any computed answer moved beyond its bound."""
    beyond = [finding.oracle for finding in found if not finding.holds]
    if not beyond:
        return "consistent: no computed answer moved beyond its bound"
    names = ", ".join(dict.fromkeys(beyond))
    return f"violated: {len(beyond)} of {len(found)} exceed their bound, for {names}"
