"""What the relay methods share: a step size, and an average over the hops that take part."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Self

import equinox as eqx
import numpy as np
from typing_extensions import override

from tacit.algorithms.algorithm import Noise, RelayAlgorithm
from tacit.algorithms.steps import checked_step, steps_and_averaging
from tacit.network import Mixing, Walk
from tacit.problems import Problem
from tacit.spec import Spec
from tacit.typing import HostArray


class NoisedRelay(RelayAlgorithm):
    """A token whose holder asks for the gradient of its own records.

    **Settings from public facts.** The step size is half of the method's limit, or less if the
    noise asks for it (`tacit.algorithms.steps.step_within`); with noise the last half of the models
    is averaged, over the hops that take part: beyond a cap the token is passed on as it is.

    Attributes
    ----------
    problem
        Supplies the regulariser and the constraint; its loss is not used.
    step
        The step size; None for the public choice.
    agents, awake
        How many agents there are, and which hops take part; from the walk.
    """

    problem: Problem
    step: float | None = eqx.field(static=True, default=None)
    agents: int = eqx.field(static=True, default=0)
    awake: tuple[bool, ...] | None = eqx.field(static=True, default=None)

    @abstractmethod
    def limit(self, spec: Spec) -> tuple[float, str]:
        """Return the step size from which on the method may diverge, and its formula."""

    @override
    def fitted(self, spec: Spec, network: Mixing | Walk | None) -> Self:
        if self.step is not None:
            checked_step(type(self).__name__, self.step, *self.limit(spec))
        awake = tuple(network.awake.tolist()) if isinstance(network, Walk) else None
        return dataclasses.replace(self, agents=spec.agents, awake=awake)

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        awake = np.ones(rounds, bool) if self.awake is None else np.array(self.awake)
        limit, _ = self.limit(spec)
        sweeps = np.sum(awake) / spec.agents
        return steps_and_averaging(self.step, limit, spec, noise, awake=awake, sweeps=sweeps)
