"""The trace of a run: public values, answers, messages as sent, the observed ledger."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tacit.engine.door import Record
from tacit.privacy import Ledger
from tacit.typing import Array, HostArray, PyTree


class Trace(NamedTuple):
    """A runtime's output; `None` where a part was not kept.

    Attributes
    ----------
    models
        `(T, *shape)`: the model that could be released after each round.
    records
        The door's records, leaves `(T, E, A, ...)`; kind -1 where an agent was not asked.
    messages
        What each agent sent, leaves `(T, A, ...)`; on a relay the token, `(T, 1, ...)`.
    publics
        What agents hear after each round: the aggregator's value or the token, leaves `(T, ...)`,
        in gossip the agents' inboxes, `(T, A, ...)`.
    """

    models: Any
    records: PyTree
    messages: PyTree
    publics: PyTree


KEPT = ("models", "answers", "messages", "publics")
Keep: TypeAlias = frozenset[str]


def kept_parts(
    model: Array, inboxes: PyTree, records: PyTree, messages: PyTree, keep: Keep
) -> Trace:
    """Return the parts of one round that `keep` names, of `KEPT`."""
    if isinstance(records, Record) and "answers" not in keep:
        records = records._replace(answer=None)
    return Trace(
        models=model if "models" in keep else None,
        records=records,
        messages=messages if "messages" in keep else None,
        publics=inboxes if "publics" in keep else None,
    )


def observed_ledger(
    planned: Ledger, kind: Any, scale: Any, rate: Any = None, batch: Any = None
) -> Ledger:
    """Return the ledger that the door's records amount to.

    Parameters
    ----------
    planned
        Supplies the sensitivities and the law, which are the oracles' and not the door's.
    kind, scale, rate, batch
        `(T, E, A)` as recorded; neither rate nor size of batch where no oracle sampled.
    """
    return Ledger(
        _agents_first(kind),
        planned.sensitivity,
        _agents_first(scale),
        planned.mechanism,
        None if rate is None else _agents_first(rate),
        planned.inside,
        None if batch is None else _agents_first(batch),
    )


def _agents_first(values: Any) -> HostArray:
    return np.moveaxis(np.asarray(values), -1, 0)
