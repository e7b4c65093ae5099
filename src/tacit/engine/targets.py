"""Whether the targets of records are those that the loss of a run is defined for."""

from __future__ import annotations

from tacit.engine.planning import Plan
from tacit.problems import Shards
from tacit.problems.memory import on_host


def check_targets(plan: Plan, shards: Shards) -> None:
    """Raise `InputError` if a record's target is not one that the loss of the method has.

    A margin loss, for instance, has the targets -1 and 1: with 0 and 1 it would learn from half of
    the records, and nothing else would tell.

    Notes
    -----
    **Guarantee.** Privacy does not rest on this check: the questions hold their bounds whatever the
    targets are (`Loss.within_domain`, clipped coefficients). What matters is that its outcome tells
    nothing for free. It depends on private targets, so it is made as the norms are checked: behind
    the charge, which stays. And it is constant on the data sets that are neighbours: which targets
    there are is declared public, a record that is replaced has one of them, and everything of
    this library that packs a table, a data set or an estimator's targets maps declared labels to
    those of the loss before that. Only targets that were packed by hand can fail it, those of a
    data set outside the declared universe, like rows that are not finite.
    """
    loss = plan.program.algorithm.loss
    if loss is not None:
        real = on_host(shards.stacked.mask) > 0
        loss.check_targets(on_host(shards.stacked.targets)[real])
