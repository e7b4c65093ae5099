"""DP-EXTRA and DP-NIDS as Wang et al. 2024 (Section VII) use them: noise on what agents send."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from taciturn.network import Mixing
from taciturn.typing import HostArray
from taciturn_papers.as_published.dp_recal import GradientOf, NoisedStep

GossipMethod = Literal["extra", "nids"]
StepProx: TypeAlias = Callable[[HostArray, float | HostArray], HostArray]


class GossipMemory(NamedTuple):
    """The state of an agent, without noise: x^k, x^{k-1}, last gradient, argument of the prox."""

    model: Float[HostArray, " D"]
    before: Float[HostArray, " D"]
    slope: Float[HostArray, " D"]
    argument: Float[HostArray, " D"]


@dataclass(frozen=True, eq=False)
class GossipLinks:
    """The messages of a run, `(T, A, D)`, and the mean of the agents' models after each round."""

    messages: Float[HostArray, "T A D"]
    models: Float[HostArray, "T D"]


class GossipRound(NamedTuple):
    """What all agents send in a round, and the mean of their models after it."""

    messages: Float[HostArray, "A *B D"]
    model: Float[HostArray, "*B D"]


def noisy_gossip(  # noqa: PLR0913 - what the methods take
    gradient: GradientOf, prox: StepProx, mixing: Mixing, start: Float[HostArray, " D"],
    setting: NoisedStep, *, method: GossipMethod, rounds: int, seed: int,
) -> GossipLinks:  # fmt: skip
    """Return the messages of PG-EXTRA or NIDS if noise is added to every message.

    With V = (I + W)/2, a = alpha gamma^k, G the exact gradients and z = x = `start` at first,

        v = 2 x^k - x^{k-1} [- a (G^k - G^{k-1}) for NIDS]
        z += -x^k + V v [- a (G^k - G^{k-1}) for EXTRA],       x^{k+1} = prox(z).

    NIDS sends v, EXTRA sends x^k. The paper states only that both are "injected with DP noise".
    Here noise is added to a message when it is sent, with sigma_t^2 = R sigma_{t+1}^2 as in the
    paper's method, and as there an agent computes with its own values without noise.

    Parameters
    ----------
    prox
        (v, a) -> prox_{a r}(v).
    setting
        The largest step of any agent is that of all: these methods need a common one.

    Notes
    -----
    **Guarantee.** None: an agent's x, z and gradient carry no noise, so a message depends on a
    record through all earlier rounds, by more than the change of one step; see `message_change`.
    """
    times = np.arange(rounds)
    steps, scales = setting.largest_alpha * setting.gamma**times, setting.scales(times)
    made = gossip_rounds(gradient, prox, mixing, start, steps, scales, method=method, seed=seed)
    messages, models = zip(*made, strict=True)
    return GossipLinks(np.array(messages), np.array(models))


def gossip_rounds(  # noqa: PLR0913 - what the methods take
    gradient: GradientOf, prox: StepProx, mixing: Mixing, start: Float[HostArray, "*B D"],
    steps: Float[HostArray, "T ..."], scales: Float[HostArray, "T ..."], *,
    method: GossipMethod, seed: int,
) -> Iterator[GossipRound]:  # fmt: skip
    """Yield the rounds of `noisy_gossip`, or of B runs of it with one noise.

    Parameters
    ----------
    start
        `(D,)`, or `(B, D)` for B runs, with `steps` and `scales` of `(T, B, 1)`.
    """
    draw = np.random.default_rng(seed)
    weights = mixing.lazy.matrix().toarray()
    self_weight = np.diag(weights)
    others_weight = weights - np.diag(self_weight)
    agents, zero = len(self_weight), np.zeros_like(start)
    memories = [GossipMemory(start, start, zero, start)] * agents
    sent = np.broadcast_to(start, (agents, *start.shape))
    single = (agents, *[1] * (start.ndim - 1), start.shape[-1])  # one noise for all runs
    for k, (step, scale) in enumerate(zip(steps, scales, strict=True)):
        slopes = [gradient(i, memory.model) for i, memory in enumerate(memories)]
        exact = [message(m, g, step, method) for m, g in zip(memories, slopes, strict=True)]
        now = np.array(exact) + scale * draw.standard_normal(single)
        shown = 2 * now - sent if method == "extra" and k else now
        others = np.tensordot(others_weight, shown, 1)
        memories = [
            gossip_step(m, g, others[i], self_weight[i], step, method, prox)
            for i, (m, g) in enumerate(zip(memories, slopes, strict=True))
        ]
        sent = now
        yield GossipRound(now, np.mean([memory.model for memory in memories], axis=0))


def message(
    memory: GossipMemory, slope: HostArray, alpha: float | HostArray, method: GossipMethod
) -> HostArray:
    """Return the message of an agent without noise."""
    if method == "extra":
        return memory.model
    return _ahead(memory) - alpha * (slope - memory.slope)


def gossip_step(  # noqa: PLR0913, PLR0917 - the letters of the recursion
    memory: GossipMemory, slope: HostArray, others: HostArray, self_weight: float,
    alpha: float | HostArray, method: GossipMethod, prox: StepProx,
) -> GossipMemory:  # fmt: skip
    """Return an agent's next memory; `others` is the weighted sum of the messages it receives."""
    turn = alpha * (slope - memory.slope)
    mine = _ahead(memory) - (turn if method == "nids" else 0)
    argument = memory.argument - memory.model + self_weight * mine + others
    argument = argument - (turn if method == "extra" else 0)
    return GossipMemory(prox(argument, alpha), memory.model, slope, argument)


def message_change(method: GossipMethod, self_weight: float, rounds: int) -> Float[HostArray, " T"]:
    """Return by how much one record moves an agent's messages, in units of 2 alpha c.

    The agent has one record, whose gradient is +c at every point on one data set and -c on the
    other; there is no regulariser, and it receives the same messages on both. The change does not
    depend on these, so with Gaussian noise sigma_t on message t the two runs are exactly mu-GDP,
    and no less, with mu^2 the sum of (change_t / sigma_t)^2.

    Parameters
    ----------
    self_weight
        The weight of the agent's own value in (I + W)/2.
    """
    zero = np.zeros(1)
    pair = [GossipMemory(zero, zero, zero, zero)] * 2
    slopes = (np.array([0.5]), np.array([-0.5]))
    changes = []
    for _ in range(rounds):
        first, second = (message(m, g, 1.0, method) for m, g in zip(pair, slopes, strict=True))
        changes.append(abs(float((first - second)[0])))
        pair = [
            gossip_step(m, g, zero, self_weight, 1.0, method, lambda v, _: v)
            for m, g in zip(pair, slopes, strict=True)
        ]
    return np.array(changes)


def _ahead(memory: GossipMemory) -> HostArray:
    first: HostArray = 2 * memory.model - memory.before
    return first
