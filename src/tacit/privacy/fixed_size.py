"""Batches of a fixed size, drawn without replacement: Renyi accounting by `dp_accounting`."""

from __future__ import annotations

from collections.abc import Mapping

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant

from tacit.errors import InputError
from tacit.privacy.events import Event, FixedSize, GaussianAnswer
from tacit.privacy.relations import Relation, ReplaceOne


def fixed_size_epsilon(counts: Mapping[Event, int], delta: float, relation: Relation) -> float:
    """Return an upper bound on epsilon for answers on fixed-size batches and on all records.

    Raises
    ------
    InputError
        If the relation is not replace_one, or an event is neither `FixedSize` nor a plain Gaussian
        answer.

    Notes
    -----
    **Guarantee.** For a Gaussian answer of replace-one multiplier s on a batch of b out of n
    records without replacement, the Renyi divergence of every order is bounded by Wang, Balle and
    Kasiviswanathan (2019), Theorem 9; orders add up over answers, adaptively chosen or not, and
    turn into (epsilon, delta) by Canonne, Kamath and Steinke (2020). All of it is `dp_accounting`'s
    Renyi accountant for replace-one. Removing a record changes the size of the data, on which the
    batch depends, so zero_out has no such bound here. Bounds of this kind are looser than those
    by privacy-loss distributions, which Poisson batches have.
    """
    if not isinstance(relation, ReplaceOne):
        raise InputError(
            f"batches of a fixed size are accounted for under replace_one only, not under "
            f"{relation.name}; use Poisson batches or replace_one"
        )
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    for event, count in counts.items():
        accountant.compose(_their_event(event), count)
    return float(accountant.get_epsilon(delta))


def _their_event(event: Event) -> dp_event.DpEvent:
    match event:
        case GaussianAnswer(multiplier):
            return dp_event.GaussianDpEvent(multiplier)
        case FixedSize(inner, batch, records):
            gaussian = dp_event.GaussianDpEvent(inner.multiplier)
            return dp_event.SampledWithoutReplacementDpEvent(records, batch, gaussian)
        case _:
            raise InputError(
                f"{type(event).__name__} cannot be composed with batches of a fixed size here; "
                "use one kind of sampling in a plan"
            )
