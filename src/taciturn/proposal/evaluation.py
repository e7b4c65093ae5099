"""The part of a proposal about records that are held out of a training."""

from __future__ import annotations

from pydantic import model_validator

from taciturn.errors import InputError
from taciturn.oracles import BINS, ClippedErrors, Tally
from taciturn.problems import held_out_share
from taciturn.proposal.data_facts import DataFacts
from taciturn.proposal.document import Part
from taciturn.proposal.parts import Count

MOST_CELLS = 100_000


class Evaluation(Part):
    """Records that are held out of a training, and mostly asked about the released model.

    Attributes
    ----------
    share
        Of each agent's records.
    counts
        How many records each agent holds out (`taciturn.problems.held_out_counts`), or places of
        persons; they are not among those of the proposal, which are trained on.
    asked
        Whether they are asked one last question; if not, a choice among trainings asks them
        (`taciturn.tuning`), or nobody.
    """

    share: float
    counts: tuple[Count, ...]
    asked: bool = True

    @model_validator(mode="after")
    def _some_records(self) -> Evaluation:
        held_out_share(self.share)
        if any(count < 0 for count in self.counts) or sum(self.counts) < 1:
            raise InputError("no record is held out for the evaluation; leave it out")
        return self


def evaluation_question(
    data: DataFacts, rows_per_person: int | None = None
) -> Tally | ClippedErrors:
    """Return the question that held-out records are asked, or held-out persons.

    Raises
    ------
    InputError
        If there are so many classes that nothing but noise would be in the counts.
    """
    if data.task == "regression":
        return ClippedErrors(rows_per_person)
    question = Tally(data.classes or 2, rows_per_person=rows_per_person)
    cells = question.answer_shape(())[0]
    if cells > MOST_CELLS:
        raise InputError(
            f"an evaluation of {question.classes} classes counts records in {cells:,} cells "
            f"({BINS} bins each); at most {MOST_CELLS:,} are counted, so leave evaluate out"
        )
    return question
