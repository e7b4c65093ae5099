"""The proposal of a choice: candidates, who is asked which is best, and what all of it may cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from pydantic import model_validator

from taciturn import checks
from taciturn.errors import InputError
from taciturn.privacy import epsilon_of, mu_of
from taciturn.problems import check_at_one_agent, held_out_counts
from taciturn.proposal import (
    Budget,
    DataFacts,
    Document,
    Evaluation,
    Part,
    Proposal,
    Request,
    StructureRequest,
    evaluation_question,
    propose,
)

FEWEST, MOST_CANDIDATES = 2, 32
# of a candidate's mu: what joining their ledgers may round up
_MARGIN = 1e-5


class Candidate(Part):
    """A candidate: what it is called, and its training at its share of the budget."""

    name: str
    proposal: Proposal


class TuneProposal(Document):
    """Everything public about a choice among trainings: frozen, checked, and data only.

    All candidates are trained on the same records. Others, which are held out of all trainings,
    say which candidate is best (`taciturn.tuning.choose`).

    Candidates are trained in their order, and of several that are chosen equally often the first
    wins. They may differ in features, problem, method and rounds, and in nothing else. The budget
    is that of trainings and choice together.
    """

    FORMAT: ClassVar[str] = "taciturn.tune"
    VERSION: ClassVar[int] = 1

    candidates: tuple[Candidate, ...]
    evaluation: Evaluation
    budget: Budget

    @model_validator(mode="after")
    def _consistent(self) -> TuneProposal:
        number = len(self.candidates)
        if not FEWEST <= number <= MOST_CANDIDATES:
            raise InputError(
                f"there are {number} candidates; give {FEWEST} to {MOST_CANDIDATES}, since each "
                "of them adds to the noise of all"
            )
        names = [candidate.name for candidate in self.candidates]
        if len(set(names)) < number:
            raise InputError("two candidates have the same name; let each differ from the others")
        if math.isinf(self.budget.epsilon):
            raise InputError("a choice is planned for a finite epsilon; give one")
        if self.budget.unit not in {"record", "person"}:
            raise InputError("a choice protects records or persons; change the unit")
        check_at_one_agent(self.budget.agents_per_person)
        for candidate in self.candidates:
            self._check(candidate.proposal)
        self._check_held_out()
        return self

    def _check(self, proposal: Proposal) -> None:
        if proposal.evaluation != self.evaluation:
            raise InputError("a candidate holds out other records than those that choose here")
        own, first = proposal.budget, self.candidates[0].proposal
        if own.model_copy(update={"epsilon": self.budget.epsilon}) != self.budget:
            raise InputError("a candidate has other terms than the choice; make them the same")
        if not own.epsilon <= self.budget.epsilon:
            raise InputError(
                f"a candidate has epsilon {own.epsilon:g}, and all together {self.budget.epsilon:g}"
            )
        same = ("counts", "split_seed")
        different = [name for name in same if getattr(proposal, name) != getattr(first, name)]
        if different or _columns(proposal.data) != _columns(first.data):
            raise InputError(
                "the candidates are for different records or divide them otherwise; give them the "
                "same data, agents and split seed"
            )
        if proposal.conditional:
            raise InputError(
                "a candidate's public facts are read off the records; state what was public "
                "beforehand"
            )

    def _check_held_out(self) -> None:
        evaluation, rows = self.evaluation, self.budget.rows_per_person
        if evaluation.asked:
            raise InputError("the records that choose are asked nothing else; say so")
        evaluation_question(self.data, rows)
        evaluation.check_share(self.candidates[0].proposal.counts, rows)

    @property
    def data(self) -> DataFacts:
        """The facts of the first candidate; others may have other features."""
        return self.candidates[0].proposal.data

    @property
    def units_held_out(self) -> tuple[int, ...]:
        """How many records or persons of each agent choose."""
        rows = self.budget.rows_per_person or 1
        return tuple(count // rows for count in self.evaluation.counts)


def _columns(data: DataFacts) -> DataFacts:
    """Return the facts without the features, which candidates may differ in."""
    return data.model_copy(update={"features": None})


def propose_choice(
    facts: Sequence[DataFacts],
    counts: Sequence[int],
    requests: Sequence[tuple[str, Request, StructureRequest]],
    *,
    share: float,
    dealt: bool = False,
) -> TuneProposal:
    r"""Return the proposal of a choice among named requests on the same terms.

    Of k candidates each is proposed at mu / sqrt(k), mu that of the whole budget: all together then
    have mu (`taciturn.privacy.joined`).

    Parameters
    ----------
    facts
        About the records, with each candidate's features.
    counts
        Records of each agent, or places of persons, with those that are to be held out.
    requests
        A name for each candidate, and its request with the whole budget.
    share
        Of each agent's records or persons, to choose by.
    dealt
        Whether records have no owners and are dealt to several agents at random.
    """
    if len(requests) < FEWEST:
        raise InputError(f"there are {len(requests)} candidates; give at least {FEWEST}")
    _, first, _ = requests[0]
    mu = mu_of(checks.positive("epsilon", first.epsilon), first.delta)
    each = epsilon_of(first.delta, mu / math.sqrt(len(requests)) * (1 - _MARGIN))
    held = held_out_counts(counts, share, rows_per_person=first.rows_per_person)
    kept = [count - out for count, out in zip(counts, held, strict=True)]
    evaluation = Evaluation(share=float(share), counts=held, asked=False)
    candidates = []
    for (name, request, structure), about in zip(requests, facts, strict=True):
        alone = replace(request, epsilon=each, evaluate=None)
        content = structure.structure(about.names)
        own = propose(about, kept, alone, content, dealt=dealt)
        own = own.model_copy(update={"evaluation": evaluation})
        candidates.append(Candidate(name=name, proposal=own))
    return TuneProposal(
        candidates=tuple(candidates),
        evaluation=evaluation,
        budget=first.budget,
    )
