"""The sound methods that are compared: who talks to whom, and how much is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tacit.algorithms import (
    EXTRA,
    NIDS,
    RECAL,
    RWADMM,
    Algorithm,
    LinearisedGossipADMM,
    NoisyGradient,
    Walkman,
)
from tacit.engine import Network, Plan, plan
from tacit.network import metropolis, ring, uniform_walk
from tacit.problems import Problem, public_facts
from tacit_papers.reproductions.wang2024.settings import AGENTS, Scale, Setting
from tacit_papers.reproductions.wang2024.tasks import Task

RECAL_HOP = 3  # vectors: x, u and the average of the models
STAR, CENTRAL = "noisy gradient, star", "noisy gradient, one trusted holder"


@dataclass(frozen=True)
class Method:
    """A sound method on a ring.

    Attributes
    ----------
    messages, vectors
        Sent in one round, all agents together: messages, and vectors as long as the model.
    network
        From the number of rounds and a seed.
    central
        Whether one holder has all records, and sends nothing.
    """

    algorithm: Callable[[Problem], Algorithm]
    messages: int
    vectors: int
    network: Callable[[int, int], Network]
    central: bool = False

    def rounds(self, scale: Scale) -> int:
        """Return how many rounds send as many numbers as RECAL's hops."""
        return RECAL_HOP * scale.hops // self.vectors

    def plan(
        self, task: Task, problem: Problem, setting: Setting, scale: Scale, *, seed: int
    ) -> Plan:
        """Return the plan of one run; the seed is that of the walk, which is public."""
        rounds = self.rounds(scale)
        return plan(
            public_facts(problem, task.whole if self.central else task.shards, clip=task.clip),
            self.algorithm(problem),
            (task.oracle,),
            setting.terms,
            rounds=rounds,
            precision="float32",
            network=self.network(rounds, seed),
        )


def _walk(rounds: int, seed: int) -> Network:
    return uniform_walk(ring(AGENTS), rounds, seed=seed)


def _gossip(rounds: int, seed: int) -> Network:
    del rounds, seed
    return metropolis(ring(AGENTS))


def _star(rounds: int, seed: int) -> Network:
    del rounds, seed
    return None


_BOTH_WAYS = 2 * AGENTS  # the edges of a ring, or the spokes of a star, in either direction
METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "RECAL": Method(RECAL, 1, RECAL_HOP, _walk),
        "Walkman": Method(Walkman, 1, 3, _walk),
        "RWADMM (reconstructed)": Method(RWADMM, 4, 8, _walk),
        "NIDS": Method(NIDS, _BOTH_WAYS, 2 * _BOTH_WAYS, _gossip),
        "PG-EXTRA": Method(EXTRA, _BOTH_WAYS, 2 * _BOTH_WAYS, _gossip),
        "gossip ADMM (IC-ADMM)": Method(LinearisedGossipADMM, _BOTH_WAYS, _BOTH_WAYS, _gossip),
        STAR: Method(NoisyGradient, _BOTH_WAYS, _BOTH_WAYS, _star),
        CENTRAL: Method(NoisyGradient, 0, _BOTH_WAYS, _star, central=True),
    }
)
