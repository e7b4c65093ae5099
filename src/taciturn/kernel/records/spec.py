"""Public facts: all that planning may know about a problem. No data is reachable from here."""

from __future__ import annotations

import math
from dataclasses import dataclass

from taciturn import checks
from taciturn.errors import InputError

# a thousandth of the noise for records of this norm is a normal number in single precision
LEAST_BOUND = 2.0**-60
# what single precision can hold; squares of bounds between the two stay within double precision
GREATEST_BOUND = 2.0**128


@dataclass(frozen=True)
class Spec:
    """What every observer may know.

    - `counts`: Records of each agent, m_i (docs/explanation/threat-model.md).
    - `shape`: Shape of the model: `(D,)`, or `(D, K)` for K classes.
    - `record_norm`: R: every record satisfies |x|_2 <= R, enforced when shards are packed.
    - `gradient_bound`: c_1, a bound on the Euclidean norm of one record's (clipped) gradient. If it
      is infinite only epsilon = infinity can be planned.
    - `smoothness`: c_3, the Lipschitz constant of the gradient of every f_i.
    - `regulariser_bound`, `regulariser_smoothness`: c_2 and c_4 of Huang et al. 2019, bounds on the
      regulariser's (sub)gradient and Hessian; infinite if unbounded.
    - `dealt`: Whether records without owners are dealt to the agents at random: neighbours are then
      files, and any agent may hold a record.
    """

    counts: tuple[int, ...]
    shape: tuple[int, ...]
    record_norm: float
    gradient_bound: float
    smoothness: float
    regulariser_bound: float = 0.0
    regulariser_smoothness: float = 0.0
    dealt: bool = False

    def __post_init__(self) -> None:
        if not self.counts:
            raise InputError("there are no agents; at least one is needed")
        whole = set(map(type, self.counts)) == {int}
        for agent, count in enumerate(() if whole and min(self.counts) >= 1 else self.counts):
            checks.at_least(f"the record count of agent {agent}", count, 1)
        for size in self.shape:
            checks.at_least("a dimension of the model", size, 1)
        # bounds are products of these, so they must be plain floats, whatever class was given
        plain = {"record_norm": checks.positive("record_norm", self.record_norm)}
        for name in ("gradient_bound", "smoothness"):
            plain[name] = checks.positive(name, getattr(self, name), allow_infinity=True)
        for name in ("regulariser_bound", "regulariser_smoothness"):
            plain[name] = checks.not_negative(name, getattr(self, name), allow_infinity=True)
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        self._check_sizes()

    def _check_sizes(self) -> None:
        for name in ("record_norm", "gradient_bound"):
            if getattr(self, name) < LEAST_BOUND:
                raise InputError(
                    f"{name} is {getattr(self, name):g}; it must be at least 2^-60, since compiled "
                    "programs may round much smaller noise to 0: give the records a larger unit"
                )
        if self.record_norm > GREATEST_BOUND:
            raise InputError(
                f"record_norm is {self.record_norm:g}; it must be at most 2^128, beyond which "
                "squares may overflow: give the records a smaller unit"
            )

    @property
    def agents(self) -> int:
        """Number of agents, A."""
        return len(self.counts)

    @property
    def dimension(self) -> int:
        """Number of model coordinates, d p in Huang et al. 2019."""
        return math.prod(self.shape)
