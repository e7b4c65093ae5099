"""Noise inside an objective: what its law rests on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from tacit.privacy.events import PerturbedAnswer
from tacit.typing import HostArray


@dataclass(frozen=True, eq=False)
class Inside:
    """The parameters of the law of noise inside an objective.

    Attributes
    ----------
    jacobian, output_ratio
        `(A,)` each, for every agent's answers: see `tacit.privacy.PerturbedAnswer`.
    """

    jacobian: Float[HostArray, " A"]
    output_ratio: Float[HostArray, " A"]

    def event(self, multiplier: float, agent: int) -> PerturbedAnswer:
        """Return one agent's answer at that multiplier, for the accountant."""
        return PerturbedAnswer(
            multiplier, float(self.jacobian[agent]), float(self.output_ratio[agent])
        )

    def worst(self, multiplier: float) -> PerturbedAnswer:
        """Return an answer that costs at least as much as that of any agent."""
        return PerturbedAnswer(
            multiplier, float(np.max(self.jacobian)), float(np.max(self.output_ratio))
        )
