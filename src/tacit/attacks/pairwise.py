"""What one agent of a network, who hears its neighbours only, learns of another one's records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.sparse.csgraph import shortest_path

from tacit.errors import InputError
from tacit.network import Mixing, Walk
from tacit.plan import Plan
from tacit.privacy import Messages, epsilon_of
from tacit.typing import HostArray

ANY_QUESTION = (
    "questions may depend on what the agent does not hear, and then noise on the way hides "
    "nothing for certain: every answer that can have reached it counts as if it had been read"
)


@dataclass(frozen=True, eq=False)
class Pairwise:
    """What every agent learns of every other one.

    Attributes
    ----------
    mu
        `(A, A)`: entry (i, j) bounds what agent j learns of a record of agent i; infinite for
        i = j, since agents know their own records.
    all_links
        `(A,)`: the same for an observer of all links, the certificate's value.
    reason
        What the bound rests on.
    """

    mu: Float[HostArray, "A A"]
    all_links: Float[HostArray, " A"]
    reason: str

    def epsilon(self, delta: float) -> Float[HostArray, "A A"]:
        """Return the epsilon of every pair at `delta`."""
        apart = ~np.eye(len(self.mu), dtype=bool)
        epsilons = np.full_like(self.mu, np.inf)
        epsilons[apart] = epsilon_of(delta, self.mu[apart])
        return epsilons

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values."""
        return {
            "mu": self.mu.tolist(), "all_links": self.all_links.tolist(), "reason": self.reason
        }  # fmt: skip


def pairwise_mu(plan: Plan, *, released: bool) -> Pairwise:
    """Return what agent j learns of a record of agent i, for any questions and every pair.

        mu_ij = sqrt(sum of (Delta/sigma)^2 over the answers of i that can have reached j).

    Parameters
    ----------
    released
        Whether agents also learn the released model. It depends on all answers, so every entry is
        then the all-links value.

    Raises
    ------
    InputError
        If the plan has no network.
    PrivacyError
        If its answers have no mu (`tacit.privacy.Ledger.mu_per_agent`).

    Notes
    -----
    **Guarantee.** Agent j hears the messages of its neighbours, or the tokens handed to it, and
    knows its own records and noise. Call the past of j the answers from which a chain of messages
    leads to something that j hears. In gossip the answer of agent k in round t is in what k sends
    in that round, and moves one link a round: it is in the past iff t <= T - d(k, j), with d the
    number of links. On a relay it is iff j holds the token at a later hop. The past is closed:
    whatever leads to the question of one of its answers leads on to j. So what j hears is a
    function of the answers in its past, each of which is asked at a state that follows from earlier
    ones in the past and public constants. They are an adaptive composition of Gaussian answers of
    their own, in which only those of i depend on i's records, and mu follows as for the ledger.

    **Why not less.** Others' noise is added on the way, and for questions fixed beforehand the
    linear map from answers to what j hears, with its noise, gives a smaller number. But a gradient
    is asked at a model that j does not know, and which carries the hidden answer: the gradients of
    others then pass it on in a way that depends on their curvature. Already for quadratics the true
    mu exceeds the number for fixed questions, so that number is no bound, and is not returned.
    Where curvature is public, `pairwise_mu_affine` accounts for it exactly.
    """
    reached = can_have_reached(plan, released=released)
    squares = np.sum(plan.ledger.ratios() ** 2, axis=-1)
    mu = np.sqrt(np.einsum("ijt,it->ij", reached, squares))
    np.fill_diagonal(mu, np.inf)
    return Pairwise(mu, plan.ledger.mu_per_agent(Messages()), ANY_QUESTION)


def can_have_reached(plan: Plan, *, released: bool) -> Bool[HostArray, "A A T"]:
    """Return whether the answers of agent i in round t can have reached agent j by the end.

    Raises
    ------
    InputError
        If the plan has no network.
    """
    agents, rounds, network = plan.spec.agents, plan.rounds, required_network(plan.network)
    if released:
        return np.ones((agents, agents, rounds), bool)
    if isinstance(network, Walk):
        return _by_token(network, agents)
    distance = shortest_path(network.graph.adjacency(), unweighted=True)
    return np.asarray(np.arange(rounds) <= rounds - distance[..., None])


def _by_token(walk: Walk, agents: int) -> HostArray:
    """Return whether j holds the token after the hop of the answer."""
    hops = np.arange(len(walk.holders))
    last = np.full(agents, -1)
    last[walk.holders] = hops  # of several assignments the last one stays
    return np.broadcast_to(hops < last[None, :, None], (agents, agents, len(hops)))


def required_network(network: Mixing | Walk | None) -> Mixing | Walk:
    """Return the network of a plan, or raise `InputError` if it has none."""
    if network is None:
        raise InputError(
            "the plan has an aggregator and no network between agents; plan for the observer sum"
        )
    return network
