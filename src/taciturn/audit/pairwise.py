"""What an agent of a network, which receives only its neighbours' messages, learns of another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from taciturn.engine.planning import Plan
from taciturn.errors import InputError
from taciturn.kernel.privacy import Messages, epsilon_of
from taciturn.typing import HostArray

ANY_QUESTION = (
    "questions may depend on messages that the agent does not receive, so noise added on the way "
    "is not credited: every answer that can have reached it counts as if it had been read"
)


@dataclass(frozen=True, eq=False)
class Pairwise:
    """Bounds on what each agent learns about each other agent.

    - `mu`: `(A, A)`: Entry (i, j) bounds what agent j learns about a record of agent i; infinite
      for i = j, since agents know their own records.
    - `all_links`: `(A,)`: The same for an observer of all links, the certificate's value.
    - `reason`: The assumption behind the bound.
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


def pairwise_mu(plan: Plan, *, released: bool) -> Pairwise:
    """Return a bound on what agent j learns about a record of agent i, for any questions.

        mu_ij = sqrt(sum of (Delta/sigma)^2 over the answers of i that can have reached j).

    With `released`, agents also learn the released model: it depends on all answers, so every entry
    is then the all-links value. `PrivacyError` if the answers have no mu (`Ledger.mu_per_agent`).

    **Guarantee.** Agent j receives its neighbours' messages, or tokens, and knows its own records
    and noise. Its past is the set of answers from which a chain of messages leads to j. In gossip
    the answer of agent k in round t is in what k sends in that round, and moves one link a round:
    it is in the past iff t <= T - d(k, j), d the number of links. On a relay it is iff j holds the
    token at a later hop; where holders send to their neighbours instead
    (`Algorithm.tells_neighbours`), iff a chain of agents leads from i, each a neighbour of the
    previous one and a later holder, to a neighbour of j. Along a tree every agent receives the
    total of every round, so all answers are in its past. The past is closed: a chain to the
    question of one of its answers extends to j. So what j receives is a function of the answers in
    its past, each queried at a state determined by earlier answers of the past and public
    constants: an adaptive composition of Gaussian answers, of which only those of i depend on i's
    records, and mu follows as for the ledger.

    For queries fixed in advance, the linear map from answers to the messages that j receives, which
    adds the noise of other agents, gives a smaller number. But a gradient is queried at a model
    that depends on the unseen answer: even for quadratics the true mu exceeds that number, which is
    no bound. If curvature is public, `taciturn_papers.exact_pairwise` accounts for it exactly.
    """
    squares = np.sum(plan.ledger.ratios() ** 2, axis=-1)
    before = np.concatenate([np.zeros_like(squares[:, :1]), np.cumsum(squares, axis=1)], axis=1)
    learned = np.take_along_axis(before, rounds_that_reach(plan, released=released), axis=1)
    np.fill_diagonal(learned, 0.0)  # an agent learns nothing about its own rows
    others = plan.terms.adjacency.agents_per_person - 1
    every = plan.ledger.mu_per_agent(Messages())[:, None] ** 2
    mu, all_links = (np.sqrt(_with_others(sums, others)) for sums in (learned, every))
    np.fill_diagonal(mu, np.inf)
    return Pairwise(mu, all_links[:, 0], ANY_QUESTION)


def _with_others(sums: Float[HostArray, "A B"], others: int) -> Float[HostArray, "A B"]:
    """Return every entry plus the `others` largest other entries of its column."""
    ordered = np.sort(sums, axis=0)[::-1]
    # an entry among the largest must not count twice: take the next largest instead
    found: HostArray = np.minimum(
        sums + np.sum(ordered[:others], axis=0), np.sum(ordered[: others + 1], axis=0)
    )
    return found


def rounds_that_reach(plan: Plan, *, released: bool) -> Int[HostArray, "A A"]:
    """Return the number of first rounds whose answers of agent i can reach agent j by the end.

    `InputError` if the plan has no network, or records are dealt at random, so that the owner of a
    record, and with it the pair, is secret.
    """
    agents, rounds = plan.spec.agents, plan.rounds
    if plan.spec.dealt:
        raise InputError(
            "records are dealt to the agents at random, so no agent owns a known record; give each "
            "record its owner to state what one agent learns of another's records"
        )
    if plan.network is None:
        raise InputError(
            "the plan has an aggregator and no network between agents; plan for the observer sum"
        )
    if released:
        return np.full((agents, agents), rounds)
    return plan.network.reach(rounds, tells_neighbours=plan.program.algorithm.tells_neighbours)
