"""The privacy terms of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from tacit import checks
from tacit.errors import InputError
from tacit.privacy.observers import Messages, Observer, Sum
from tacit.privacy.relations import Adjacency

MOST_EPSILON = 1e6


@final
@dataclass(frozen=True)
class Terms:
    """A total budget, a neighbouring relation and an observer.

    Attributes
    ----------
    epsilon, delta
        The budget of the whole run. `epsilon` may be infinite: the run is then without noise, and
        its certificate says "no privacy".
    adjacency
        Which data sets are neighbours.
    observer
        What is observed.

    Raises
    ------
    InputError
        If epsilon is not above 0 or so large that it protects nothing, delta is not between 0 and
        1, or adjacency or observer is something else, for example its name.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    observer: Observer

    def __post_init__(self) -> None:
        checks.positive("epsilon", self.epsilon, allow_infinity=True)
        if MOST_EPSILON < self.epsilon < math.inf:
            raise InputError(
                f"epsilon {self.epsilon:g} protects nothing; give inf for a run without noise"
            )
        checks.delta(self.delta)
        if not isinstance(self.adjacency, Adjacency):
            raise InputError(
                f"adjacency is {self.adjacency!r}; pass an Adjacency, for example "
                'Adjacency(ReplaceOne(), "record")'
            )
        if not isinstance(self.observer, Messages | Sum):
            raise InputError(f"observer is {self.observer!r}; pass Messages() or Sum(colluders=1)")
