"""The answers of agents as events for the accountant, those alike counted together."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from tacit.privacy.events import Event, GaussianAnswer, sampled
from tacit.privacy.inside import Inside
from tacit.privacy.mechanisms import Mechanism
from tacit.typing import HostArray


def merged(
    answers: Sequence[Float[HostArray, "A T E"]],
    agents: range,
    mechanism: Mechanism,
    inside: Inside | None,
) -> tuple[tuple[tuple[Event, int], ...], ...]:
    """Return the events of each of some agents with their counts.

    Parameters
    ----------
    answers
        Movement over noise, sampling rates, fixed sizes of batches.
    inside
        Where the noise stood inside the objective: an event then depends on whose it is.
    """
    known: dict[Any, tuple[tuple[Event, int], ...]] = {}
    events = []
    for agent in agents:
        given = np.stack([part[agent].ravel() for part in answers])
        key = given.tobytes() if inside is None else agent
        if key not in known:
            known[key] = tuple(_counted(given, agent, mechanism, inside).items())
        events.append(known[key])
    return tuple(events)


def _counted(
    answers: HostArray, agent: int, mechanism: Mechanism, inside: Inside | None
) -> Counter[Event]:
    total: Counter[Event] = Counter()
    values, counts = np.unique(answers[:, answers[0] > 0], axis=1, return_counts=True)
    for (value, rate, size), count in zip(values.T.tolist(), counts.tolist(), strict=True):
        # 1/infinity is 0, an answer without noise; a ratio that underflows is kept finite
        event = mechanism.event(min(1 / value, sys.float_info.max))
        if inside is not None and isinstance(event, GaussianAnswer):
            event = inside.event(event.multiplier, agent)
        total[sampled(event, rate, int(size))] += count
    return total
