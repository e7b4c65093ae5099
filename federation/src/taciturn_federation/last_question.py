"""The last question of a run: what held-out records say of the model that was released.

It is a second leg of the same run, with a plan and a ledger of its own. Every agent that holds
records out answers it once, after the training, and tells its noised answer to all.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from taciturn.engine import Plan
from taciturn.engine.running import check_bounds, check_certificate, check_machine
from taciturn.errors import InputError, PrivacyError
from taciturn.evaluation import (
    PrivateScore,
    evaluation_plan,
    evaluation_seed,
    score_of_totals,
    score_units,
    with_evaluation,
)
from taciturn.features import CONSTANT
from taciturn.privacy import Certificate
from taciturn.proposal import Proposal, labels_of
from taciturn.tables import Numeric
from taciturn.training import DividedData
from taciturn.typing import HostArray
from taciturn_federation.answering import Answering, layouts_of
from taciturn_federation.envelope import BreachError, Layout
from taciturn_federation.masks import opened
from taciturn_federation.party import Released
from taciturn_federation.records import private_of

# intervals are roots of polynomials in fourth powers of totals
_MOST_TOTAL = 1e50


@dataclass(frozen=True, eq=False)
class LastQuestion:
    """What the agents of a proposal with an evaluation are asked in the end.

    **Guarantee.** A site asks its own held-out records about the model that follows from what it
    heard itself; its answer is that of `Answering` under the plan that it derived. Which records
    these are the site's own secret draw decides, so no record is in both legs
    (`taciturn.evaluation.of_disjoint_parts`), and what the coordinator says cannot change that.
    Where its noise counts on that of others (`summed`), answers are whole numbers of steps that
    leave under masks, and the sum over all who answer is the only thing that anybody can read.

    Attributes
    ----------
    training
        The plan of the training.
    agents
        Those who answer, in order: the ones that hold records out.
    """

    proposal: Proposal
    training: Plan
    agents: tuple[int, ...]

    @cached_property
    def planned(self) -> Plan:
        """The plan for a model of zeros: for others only the question differs, and no scale."""
        return self._plan(np.zeros(self.proposal.facts.shape))

    @property
    def summed(self) -> bool:
        """Whether only the sum of the answers may be read."""
        return self.planned.program.summed

    @cached_property
    def layout(self) -> Layout:
        """The layout of an answer."""
        return dataclasses.replace(layouts_of(self.planned.program).message, most=_MOST_TOTAL)

    def _plan(self, weights: HostArray) -> Plan:
        norm = math.hypot(1.0, CONSTANT) if self.proposal.centre else None
        return evaluation_plan(self.proposal, self.training, weights, record_norm=norm)

    def check(self, seed: int | None) -> None:
        """Raise unless the plan keeps its bounds and this machine can draw its noise."""
        check_bounds(self.planned)
        check_certificate(self.planned)
        check_machine(self.planned.program, evaluation_seed(seed))

    def certificate(self, training: Certificate) -> Certificate:
        """Return the certificate of a training with this question after it."""
        return with_evaluation(self.proposal, training, self.planned.certificate)

    def answering(
        self, agent: int, data: DividedData, released: Released, seed: int | None
    ) -> Answering:
        """Return what answers for an agent once the model is known.

        Raises
        ------
        PrivacyError
            If its file does not hold out as many records as the proposal says.
        """
        evaluation = self.proposal.evaluation
        assert evaluation is not None
        around = data if released.centre is None else data.around(released.centre)
        shards = around.evaluated()
        if shards.counts != (evaluation.counts[agent],):
            raise PrivacyError("the records held out are not as many as the proposal says")
        planned = self._plan(released.weights)
        number = self.agents.index(agent)
        private = private_of(shards, planned)
        return Answering(planned, number, private, seed=evaluation_seed(seed))

    def totals(self, answers: Sequence[HostArray]) -> Float[HostArray, "S"]:
        """Return the sum of the agents' answers, of which masks cancel in it.

        Raises
        ------
        BreachError
            If masks do not cancel.
        """
        if not self.summed:
            return np.asarray(np.sum(np.stack(list(answers)), axis=0, dtype=np.float64))
        words = [np.asarray(answer).view(np.uint64) for answer in answers]
        try:
            steps = opened(words, len(self.agents))
        except InputError as error:
            raise BreachError(f"of the last question, {error}") from None
        exponent = int(np.asarray(self.planned.program.exponents)[0, 0, 0])
        return np.ldexp(steps.astype(np.float64), exponent)

    def score(self, totals: Float[HostArray, "S"]) -> PrivateScore:
        """Return the figures, post-processing of the answers alone."""
        proposal = self.proposal
        bounds = proposal.data.table.bounds if proposal.data.table is not None else None
        numbers = bounds is not None and isinstance(bounds.target, Numeric)
        unit = bounds.half_range if bounds is not None and numbers else 1.0
        scale = score_units(proposal, labels_of(proposal.data), unit)
        return score_of_totals(proposal, self.planned, totals, scale)


def last_question(proposal: Proposal, training: Plan) -> LastQuestion | None:
    """Return the last question of a proposal; None if nothing is held out, or not asked about."""
    if proposal.evaluation is None or not proposal.asks:
        return None
    agents = tuple(np.flatnonzero(proposal.evaluation.counts).tolist())
    return LastQuestion(proposal, training, agents)
