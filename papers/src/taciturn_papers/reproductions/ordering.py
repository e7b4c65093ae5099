"""The orderings that a paper claims, and whether measured numbers follow them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from scipy import stats

from taciturn.errors import InputError
from taciturn.typing import HostArray
from taciturn_papers.reproductions.figure import Measured

Verdict = Literal[
    "comes out", "comes out under some readings", "comes out in part", "undecided",
    "does not come out",
]  # fmt: skip
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
_CLAUSES = {
    "comes out": ("comes out", "come out"),
    "comes out under some readings": (
        "comes out under some readings",
        "come out under some readings",
    ),
    "comes out in part": ("comes out in part", "come out in part"),
    "undecided": ("is undecided", "are undecided"),
    "does not come out": ("does not come out", "do not come out"),
}
State = Literal["in order", "reversed", "too close to tell", "measured once"]
STATES: tuple[State, ...] = get_args(State)
LEVEL = 0.05
RULE = (
    "Two numbers differ if a two-sided t test over the seeds, paired where both have the same "
    "seeds, rejects their equality; 5 % of error are shared by the comparisons of a claim (Holm). "
    "Other comparisons are neutral. A claim comes out if some comparison is in the stated order "
    "and none is reversed, in part if some are reversed, not at all if all that differ are "
    "reversed; it is undecided if none differs. Where the paper leaves a choice open, each reading "
    "is judged alone."
)


def tally(verdicts: Sequence[str]) -> str:
    """Return how many of the orderings that a paper states have which verdict, as a clause.

    Examples
    --------
    >>> tally(["comes out", "comes out", "undecided"])
    'of the 3 orderings that the paper states, 2 come out, 1 is undecided'
    """
    counts = [
        f"{verdicts.count(each)} {_CLAUSES[each][verdicts.count(each) > 1]}"
        for each in VERDICTS
        if each in verdicts
    ]
    return f"of the {len(verdicts)} orderings that the paper states, {', '.join(counts)}"


def equality(first: Measured, second: Measured) -> float:
    """Return the probability of a difference as large as this one between two equal means.

    The t test for pairs if both have as many values, which are then those of the same seeds;
    Welch's if not; that of one sample against a number which is exact. Two exact numbers are equal
    or not. 1 if one of them was measured once or is not a number.

    Examples
    --------
    >>> equality(Measured.of([1.0, 2.0, 3.0]), Measured.of([1.1, 2.1, 3.11])) < 0.01
    True
    """
    one, two = np.asarray(first.values), np.asarray(second.values)
    paired = first.exact or second.exact or len(one) == len(two)
    same = paired and np.allclose(one, two, rtol=1e-12, atol=0)  # no more than rounding apart
    if same or not np.isfinite([*one, *two]).all():
        return 1.0
    if first.exact and second.exact:
        return 0.0
    if not paired:
        several = min(len(one), len(two)) > 1
        return float(stats.ttest_ind(one, two, equal_var=False).pvalue) if several else 1.0
    return _of_differences(one - two)


def _of_differences(difference: HostArray) -> float:
    if len(difference) == 1:
        return 1.0
    error = float(np.std(difference, ddof=1)) / math.sqrt(len(difference))
    statistic = abs(float(np.mean(difference))) / error if error else math.inf
    return 2 * float(stats.t.sf(statistic, len(difference) - 1))


@dataclass(frozen=True)
class Pair:
    """Two measured numbers of which the first is claimed to be the smaller.

    Attributes
    ----------
    where
        At which setting.
    reading
        How a choice that the paper leaves open was made; "" where it leaves none.
    """

    where: str
    smaller: tuple[str, Measured]
    larger: tuple[str, Measured]
    reading: str = ""

    @property
    def holds(self) -> bool:
        """Whether the first mean is below the second; never if one of them is not a number."""
        return self.smaller[1].mean < self.larger[1].mean

    @property
    def gap(self) -> float:
        """The second mean less the first, as a share of the second."""
        return (self.larger[1].mean - self.smaller[1].mean) / abs(self.larger[1].mean or 1.0)

    @property
    def once(self) -> bool:
        """Whether one of the numbers was measured only once."""
        return 1 in (self.smaller[1].repetitions, self.larger[1].repetitions)

    @cached_property
    def p_value(self) -> float:
        """`equality` of the two numbers."""
        return equality(self.smaller[1], self.larger[1])

    def __str__(self) -> str:
        sign = "<" if self.holds else "not <"
        (low, first), (high, second) = self.smaller, self.larger
        where = ", ".join(text for text in (self.reading, self.where) if text)
        return f"{where}: {low} {first} {sign} {high} {second}"


def judged(pairs: Sequence[Pair]) -> tuple[State, ...]:
    """Return the state of each comparison: Holm's procedure over all of them at `LEVEL`."""
    order = sorted(range(len(pairs)), key=lambda place: pairs[place].p_value)
    clear: set[int] = set()
    for rank, place in enumerate(order):
        if pairs[place].p_value > LEVEL / (len(pairs) - rank):
            break
        clear.add(place)
    return tuple(_state(pair, clear=place in clear) for place, pair in enumerate(pairs))


def _state(pair: Pair, *, clear: bool) -> State:
    if clear:
        return "in order" if pair.holds else "reversed"
    return "measured once" if pair.once else "too close to tell"


def _verdict(states: Sequence[State]) -> Verdict:
    kept, against = "in order" in states, "reversed" in states
    if kept and against:
        return "comes out in part"
    if not (kept or against):
        return "undecided"
    return "comes out" if kept else "does not come out"


@dataclass(frozen=True)
class Ordering:
    """A claim that some numbers are smaller than others.

    Attributes
    ----------
    part
        The id of the figure or the table that the claim is about.
    claim
        In one sentence.
    pairs
        Where it can be seen.
    whose
        "paper" for a claim of the paper, "ours" for a comparison that we add.
    """

    part: str
    claim: str
    pairs: tuple[Pair, ...]
    whose: Literal["paper", "ours"] = "paper"

    def __post_init__(self) -> None:
        if not self.pairs:
            raise InputError(f"nothing was measured for the claim {self.claim!r}; give it pairs")

    @cached_property
    def states(self) -> tuple[State, ...]:
        """The state of each pair among those of its reading."""
        found: dict[Pair, State] = {}
        for reading in self.readings:
            chosen = [pair for pair in self.pairs if pair.reading == reading]
            found |= dict(zip(chosen, judged(chosen), strict=True))
        return tuple(found[pair] for pair in self.pairs)

    @property
    def readings(self) -> tuple[str, ...]:
        """The readings, in the order of their first pairs."""
        return tuple(dict.fromkeys(pair.reading for pair in self.pairs))

    def of(self, reading: str) -> tuple[State, ...]:
        """Return the states of the comparisons under one reading."""
        both = zip(self.pairs, self.states, strict=True)
        return tuple(state for pair, state in both if pair.reading == reading)

    @property
    def verdict(self) -> Verdict:
        """What the measured numbers say of the claim, by `RULE`."""
        found = {_verdict(self.of(reading)) for reading in self.readings}
        if len(found) == 1:
            return found.pop()
        if "comes out" in found:
            return "comes out under some readings"
        return "comes out in part" if "comes out in part" in found else "does not come out"

    @property
    def count(self) -> str:
        """How many comparisons are in which state, under each reading."""
        counts = [_count(self.of(reading)) for reading in self.readings]
        if len(counts) == 1:
            return counts[0]
        return "; ".join(f"{r}: {c}" for r, c in zip(self.readings, counts, strict=True))

    @property
    def telling(self) -> tuple[Pair, ...]:
        """The pairs that are reversed, or else the closest one."""
        both = zip(self.pairs, self.states, strict=True)
        wrong = tuple(pair for pair, state in both if state == "reversed")
        return wrong or (min(self.pairs, key=lambda pair: pair.gap),)


def _count(states: Sequence[State]) -> str:
    """Return how many comparisons are in the stated order, and what the others are."""
    others = [f"{states.count(each)} {each}" for each in STATES[1:] if each in states]
    return ", ".join([f"{states.count('in order')} of {len(states)}", *others])


def rising(
    where: str, names: Sequence[str], values: Sequence[Measured], *, measure: str
) -> tuple[Pair, ...]:
    """Return the pairs that say: `values` grow in the order given.

    Examples
    --------
    >>> values = [Measured.computed(0.1), Measured.computed(0.3)]
    >>> [pair.holds for pair in rising("error", ["a", "b"], values[::-1], measure="error")]
    [False]
    """
    named = [(f"{measure} at {name}", value) for name, value in zip(names, values, strict=True)]
    return tuple(Pair(where, low, high) for low, high in itertools.pairwise(named))


def below(
    better: tuple[str, Sequence[Measured]],
    worse: tuple[str, Sequence[Measured]],
    places: Sequence[str],
) -> tuple[Pair, ...]:
    """Return the pairs that say: the first is below the second at every place."""
    together = zip(places, better[1], worse[1], strict=True)
    return tuple(Pair(where, (better[0], one), (worse[0], two)) for where, one, two in together)
