"""The account that a run of a grid is charged to, before any demand is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from taciturn.budget import Account, Reservation
from taciturn.cli import (
    begun,
    confirmed,
)
from taciturn.engine import reserve
from taciturn.errors import InputError
from taciturn_power.balance.proposal import GridProposal
from taciturn_power.delivery import Keeper
from taciturn_power.moment.opf import OpfProposal

_RUN = "power flow on "


@dataclass(frozen=True)
class Carried:
    """How a run is carried out.

    Attributes
    ----------
    oracle
        Whether figures that read the true demand are shown though it is private.
    files
        Those that the demand stands in, of the case or of the series.
    keeper
        Writes the answers before anything is computed from them.
    """

    seed: int | None
    oracle: bool
    account: Account | None
    files: tuple[Path, ...]
    keeper: Keeper


@contextmanager
def reserved(
    carried: Carried, proposal: GridProposal | OpfProposal
) -> Iterator[Reservation | None]:
    """Yield the reservation for a proposal, begun; closed as failed unless the run closes it.

    Demand stands in the files beside what is public, and was read with it.

    Raises
    ------
    InputError
        If another run in the account takes something else for a person (Guarantee), or the account
        cannot hold the run.

    Notes
    -----
    **Guarantee.** Where the unit is a person, that is a bus (`hide` is "bus") or, of a day, one
    demand. What an account promises a person adds up only over runs that mean the same: a run that
    hides one demand costs a bus sqrt(2) times as much. So an account holds runs of one kind.
    """
    account = carried.account
    if account is None:
        yield None
        return
    plan = proposal.plan()
    what = f"{_RUN}{proposal.network.name}"
    if plan.terms.adjacency.unit == "person" and isinstance(proposal, OpfProposal):
        person = f"a person is one {proposal.hide}"
        _check_person(account, person)
        what += f", {person}"
    account, contents = confirmed(account, carried.files)
    reservation = reserve(account, plan, seed=carried.seed, what=what, proposal=proposal.digest)
    try:
        begun(reservation, contents)
        yield reservation
    finally:
        reservation.close(released=False)


def _check_person(account: Account, person: str) -> None:
    runs = [run.purpose.what for run in account.state().charged]
    if any(what.startswith(_RUN) and not what.endswith(person) for what in runs):
        raise InputError(
            f"in this run {person}, and account {account.name!r} holds runs of which that is not "
            "said; open an account for each, or hide the same"
        )
