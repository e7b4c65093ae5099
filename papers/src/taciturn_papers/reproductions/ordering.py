"""The orderings that a paper claims, and whether measured numbers follow them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from taciturn.errors import InputError
from taciturn_papers.reproductions.figure import Measured

Verdict = Literal["comes out", "does not come out", "undecided"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
RULE = (
    "An ordering comes out if every comparison is in the stated order. It is undecided if no "
    "comparison is clear: each is a tie (the means differ by at most the sum of their standard "
    "errors) or was measured once."
)


@dataclass(frozen=True)
class Pair:
    """Two measured numbers of which the first is claimed to be the smaller."""

    where: str
    smaller: tuple[str, Measured]
    larger: tuple[str, Measured]

    @property
    def holds(self) -> bool:
        """Whether the first mean is below the second; never if one of them is not a number."""
        return self.smaller[1].mean < self.larger[1].mean

    @property
    def gap(self) -> float:
        """The second mean less the first, as a share of the second."""
        return (self.larger[1].mean - self.smaller[1].mean) / abs(self.larger[1].mean or 1.0)

    @property
    def clear(self) -> bool:
        """Whether the means are further apart than the sum of their two standard errors.

        A number that was measured once has no standard error, so nothing about it is clear; one
        that was computed has none to speak of.
        """
        both = (self.smaller[1], self.larger[1])
        if self.once:
            return False
        gap = abs(both[1].mean - both[0].mean)
        return gap > sum(m.spread / math.sqrt(max(m.repetitions, 1)) for m in both)

    @property
    def once(self) -> bool:
        """Whether one of the numbers was measured only once."""
        return 1 in (self.smaller[1].repetitions, self.larger[1].repetitions)

    def __str__(self) -> str:
        sign = "<" if self.holds else "not <"
        (low, first), (high, second) = self.smaller, self.larger
        return f"{self.where}: {low} {first} {sign} {high} {second}"


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

    @property
    def kept(self) -> int:
        """How many pairs are in the claimed order."""
        return sum(pair.holds for pair in self.pairs)

    @property
    def unclear(self) -> int:
        """How many pairs differ by less than the spread of the repetitions can tell."""
        return sum(not (pair.clear or pair.once) for pair in self.pairs)

    @property
    def once(self) -> int:
        """How many pairs were measured once, so that nothing is known of their spread."""
        return sum(pair.once for pair in self.pairs)

    @property
    def verdict(self) -> Verdict:
        """What the measured numbers say of the claim, by `RULE`."""
        if not any(pair.clear for pair in self.pairs):
            return "undecided"
        return "comes out" if all(pair.holds for pair in self.pairs) else "does not come out"

    @property
    def count(self) -> str:
        """At how many of the places; how many are too close to tell, or measured once."""
        close = f", {self.unclear} too close to tell" if self.unclear else ""
        once = f", {self.once} measured once" if self.once else ""
        return f"{self.kept} of {len(self.pairs)}{close}{once}"

    @property
    def telling(self) -> tuple[Pair, ...]:
        """The pairs out of order, or else the closest one."""
        wrong = tuple(pair for pair in self.pairs if not pair.holds)
        return wrong or (min(self.pairs, key=lambda pair: pair.gap),)


def rising(
    where: str, names: Sequence[str], values: Sequence[Measured], *, measure: str
) -> tuple[Pair, ...]:
    """Return the pairs that say: `values` grow in the order given.

    Examples
    --------
    >>> values = [Measured(0.1, 0.0, 1), Measured(0.3, 0.0, 1)]
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
