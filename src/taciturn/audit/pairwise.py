"""What one agent of a network, who hears its neighbours only, learns of another one's records."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from taciturn.engine.planning import Plan
from taciturn.errors import InputError
from taciturn.kernel.privacy import Messages, Relation, ReplaceOne, ZeroOut, epsilon_of
from taciturn.kernel.records import Shards, check_norms
from taciturn.typing import HostArray

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
        `(A, A)`: entry (i, j) bounds what agent j learns of a record of agent i; infinite for i =
        j, since agents know their own records.
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


def pairwise_mu(plan: Plan, *, released: bool) -> Pairwise:
    """Return what agent j learns of a record of agent i, for any questions and every pair.

        mu_ij = sqrt(sum of (Delta/sigma)^2 over the answers of i that can have reached j).

    Where `released`, agents also learn the released model: it depends on all answers, so every
    entry is then the all-links value. `PrivacyError` if the answers have no mu
    (`Ledger.mu_per_agent`).

    **Guarantee.** Agent j hears the messages of its neighbours, or the tokens handed to it, and
    knows its own records and noise. Call the past of j the answers from which a chain of messages
    leads to something that j hears. In gossip the answer of agent k in round t is in what k sends
    in that round, and moves one link a round: it is in the past iff t <= T - d(k, j), with d the
    number of links. On a relay it is iff j holds the token at a later hop; where holders send to
    their neighbours instead (`Algorithm.tells_neighbours`), iff there is a chain of agents from i,
    each a neighbour of the one before and a later holder, whose last is a neighbour of j. Along a
    tree every agent hears the total of every round, so all answers are in its past. The past is
    closed: whatever leads to the question of one of its answers leads on to j. So what j hears is a
    function of the answers in its past, each of which is asked at a state that follows from earlier
    ones in the past and public constants. They are an adaptive composition of Gaussian answers, in
    which only those of i depend on i's records, and mu follows as for the ledger.

    For questions fixed beforehand the linear map from answers to what j hears, with the noise of
    others on the way, gives a smaller number. But a gradient is asked at a model that carries the
    hidden answer: already for quadratics the true mu exceeds that number, which is no bound. Where
    curvature is public, `taciturn_papers.exact_pairwise` accounts for it exactly.
    """
    squares = np.sum(plan.ledger.ratios() ** 2, axis=-1)
    before = np.concatenate([np.zeros_like(squares[:, :1]), np.cumsum(squares, axis=1)], axis=1)
    learned = np.take_along_axis(before, rounds_that_reach(plan, released=released), axis=1)
    np.fill_diagonal(learned, 0.0)  # of its own rows j learns nothing
    others = plan.terms.adjacency.agents_per_person - 1
    every = plan.ledger.mu_per_agent(Messages())[:, None] ** 2
    mu, all_links = (np.sqrt(_with_others(sums, others)) for sums in (learned, every))
    np.fill_diagonal(mu, np.inf)
    return Pairwise(mu, all_links[:, 0], ANY_QUESTION)


def _with_others(sums: Float[HostArray, "A B"], others: int) -> Float[HostArray, "A B"]:
    """Return every entry plus the largest so many of the other ones in its column."""
    ordered = np.sort(sums, axis=0)[::-1]
    # an entry that is one of the largest itself has the next one in its place
    found: HostArray = np.minimum(
        sums + np.sum(ordered[:others], axis=0), np.sum(ordered[: others + 1], axis=0)
    )
    return found


def rounds_that_reach(plan: Plan, *, released: bool) -> Int[HostArray, "A A"]:
    """Return how many of the first rounds' answers of agent i can have reached agent j by the end.

    `InputError` if the plan has no network, or records are dealt to the agents at random: whose
    record one is, and with it the pair, is then secret.
    """
    agents, rounds = plan.spec.agents, plan.rounds
    if plan.spec.dealt:
        raise InputError(
            "records are dealt to the agents at random, so none of them is a certain agent's; give "
            "each record its owner to state what one agent learns of another's records"
        )
    if plan.network is None:
        raise InputError(
            "the plan has an aggregator and no network between agents; plan for the observer sum"
        )
    if released:
        return np.full((agents, agents), rounds)
    return plan.network.reach(rounds, tells_neighbours=plan.program.algorithm.tells_neighbours)


# two data sets that differ in one unit
DataPair = tuple[Shards, Shards]


def changed_places(pair: DataPair, relation: Relation) -> int | None:
    """Return how many records of one agent differ as the relation allows; None if otherwise.

    Under replace_one the same places hold records in both; under zero_out a record of one is absent
    from the other. `InputError` where they cannot be compared, a row breaks their norm, or they are
    equal.
    """
    first, second = pair
    same = (
        first.counts == second.counts
        and first.record_norm == second.record_norm
        and first.stacked.features.shape == second.stacked.features.shape
        and first.stacked.features.dtype == second.stacked.features.dtype
    )
    if not same:
        raise InputError(
            "the two data sets differ in counts, columns, precision or record norm, which are "
            "public; pack both in the same way"
        )
    for one in pair:
        check_norms(one.stacked, one.record_norm)
    here, there = (np.asarray(one.stacked.mask) > 0 for one in pair)
    rows = np.any(np.asarray(first.stacked.features != second.stacked.features), axis=-1)
    values = rows | np.asarray(first.stacked.targets != second.stacked.targets)
    different = (here != there) | (here & there & values)
    if not np.any(different):
        raise InputError("the two data sets are equal; let them differ in what is protected")
    if np.count_nonzero(np.any(different, axis=1)) > 1:
        return None
    absent = here != there
    fits = not np.any(absent)
    if isinstance(relation, ZeroOut):
        fits = bool(np.array_equal(absent, different))
    elif not isinstance(relation, ReplaceOne):
        fits = False
    return int(np.count_nonzero(different)) if fits else None
