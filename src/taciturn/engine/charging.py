"""What a plan charges to an account, and runs that are charged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from taciturn.budget import Account, Balance, Charge, Purpose, Reservation, relation_text, salted
from taciturn.budget.charge import Events
from taciturn.engine.planning import Plan
from taciturn.errors import InputError
from taciturn.kernel.privacy import Composition, GaussianAnswer, Messages, NoNoise, Sum, compose
from taciturn.kernel.records import Origin
from taciturn.typing import HostArray

_DIGITS = 9  # that mu is rounded up to, so that agents with equal events are written once
ChargedTo: TypeAlias = Account | Reservation


@dataclass(frozen=True)
class Charged:
    """The charge of a run.

    `account`: the account's name. `run`: the account's identifier of the run. `before`, `after`:
    the balance before the reservation, and after the run was closed.
    """

    account: str
    run: str
    before: Balance
    after: Balance


def charge_of(plan: Plan) -> Charge:
    """Return the events of a plan for each agent and observer; see `charge_of_legs`."""
    return charge_of_legs(compose((plan.leg,), plan.terms))


def charge_of_legs(composition: Composition) -> Charge:
    """Return the events of a composition for each agent, as each observer sees them.

    Raises `InputError` for a run without noise, for noise that no account can hold, and for several
    parts of which one has no mu.

    **Guarantee.** The events are those of `Composition.certificate`, with sensitivities on the
    lattice: Gaussian answers on all records are one answer of multiplier 1 / mu, the exact total
    (`Ledger.mu_per_agent`), mu rounded up; others are `Ledger.events_by_agent`. A charge for the
    observer of sums exists only if every leg is credited. Of disjoint parts an agent is charged the
    dearest, the most numbers and the coarsest lattice.

    The answers to a person at up to M agents are together one answer of the mu across agents
    (`Ledger.mu_across`). Every agent is charged that mu and M times the numbers it releases:
    whichever agents a person is at, and however other runs divide the records, the account adds up
    at least the person's cost.
    """
    terms, agents, asked = composition.terms, composition.agents, composition.asked
    ledgers, observer, summed = [leg.ledger for leg in asked], terms.observer, None
    if any(isinstance(ledger.mechanism, NoNoise) for ledger in ledgers):
        raise InputError(
            "a run without noise is not private and cannot be charged to an account; give a finite "
            "epsilon, or leave the account out"
        )
    if any(ledger.inside is not None for ledger in ledgers):
        raise InputError(
            "noise inside an objective cannot be charged to an account; use a method that adds "
            "its noise to the answer"
        )
    if all(ledger.has_mu for ledger in ledgers):
        messages = _gaussian(composition.mus(Messages()))
        if all(isinstance(leg.observer, Sum) for leg in asked):
            summed = _gaussian(composition.mus(observer))
    elif len(composition.legs) == 1:
        messages = ledgers[0].events_by_agent()
    else:
        raise InputError(
            "an account holds a training together with its evaluation where all noise is Gaussian "
            "and nothing is sampled; leave --evaluate or --account out"
        )
    across = min(terms.adjacency.agents_per_person, agents)
    return Charge(
        relation=relation_text(terms.adjacency.relation),
        unit=terms.adjacency.unit,
        messages=messages,
        summed=summed,
        colluders=observer.colluders if isinstance(observer, Sum) else 0,
        values=across * max(ledger.most_values() for ledger in ledgers),
        # without an answer nothing has to be on a lattice
        least_scale=min(
            0.0 if np.any(one.asked) and not one.on_lattice else one.finest() for one in ledgers
        ),
        dealt=asked[0].dealt,
    )


def _gaussian(sizes: HostArray) -> tuple[Events, ...]:
    """Return for each agent one Gaussian answer of its mu, rounded up; none where mu is 0."""
    if np.any(np.isinf(sizes)):
        raise InputError("an answer of this run is not bounded or has no noise; plan it with noise")

    def rounded_up(mu: float) -> float:
        unit: float = 10.0 ** (math.floor(math.log10(mu)) - _DIGITS + 1)
        return (math.floor(mu / unit) + 1) * unit

    return tuple(
        ((GaussianAnswer(1 / rounded_up(mu)), 1),) if mu > 0 else () for mu in map(float, sizes)
    )


def purpose_of(plan: Plan, what: str, proposal: str | None = None) -> Purpose:
    """Return the purpose of a plan's run, for the account's reader."""
    its = plan.certificate
    return Purpose(
        what, proposal, plan.digest, plan.terms.epsilon, its.delta, its.mu, rounds=plan.rounds
    )


def reserve(
    account: Account,
    plan: Plan,
    *,
    seed: int | None,
    what: str,
    proposal: str | None = None,
    conditional: bool = False,
) -> Reservation:
    """Reserve the events of a plan in an account, before any record is read.

    Raises `AccountError` if they do not fit; `InputError` if the run cannot be charged
    (`check_chargeable`), or the plan does not suit the account.
    """
    check_chargeable(seed=seed, conditional=conditional or plan.certificate.conditional)
    return account.reserve(charge_of(plan), purpose_of(plan, what, proposal))


def check_chargeable(*, seed: int | None, conditional: bool, origin: Origin | None = None) -> None:
    """Raise `InputError` for runs whose guarantee an account cannot hold.

    `conditional`: whether the certificate assumes facts read off the records, or an author's bound
    or code. `origin`: of records that were divided already.
    """
    if seed is not None:
        raise InputError(
            "a run with a seed is a reproduction and not private, so no account can hold it; leave "
            "the seed out, or the account"
        )
    if origin is not None and origin.reproducible:
        raise InputError(
            "a public seed divided these records, so the run is a reproduction and not private, "
            "and no account can hold it; divide them by a secret draw, or leave the account out"
        )
    if conditional:
        raise InputError(
            "the certificate of this run is conditional on facts read off the records, or on a "
            "bound or code that is its author's word, and the guarantee of an account is "
            "unconditional; give public facts, ask the questions of taciturn, and run a method of "
            "your own with --vault, or leave the account out"
        )


@contextmanager
def charging(
    account: ChargedTo | None, plan: Plan, seed: int | None, origin: Origin | None
) -> Iterator[Callable[[], Charged | None]]:
    """Charge a run before its body reads a record; yield a function that closes it as released.

    If the body ends before that, the run is closed as failed, and the charge stays.
    """
    if account is None:
        yield lambda: None
        return
    check_chargeable(seed=seed, conditional=plan.certificate.conditional, origin=origin)
    if isinstance(account, Reservation):
        account.use(charge_of(plan))
        reservation = account
    else:
        what = type(plan.program.algorithm).__name__
        reservation = reserve(account, plan, seed=seed, what=what)
        with release_on_error(reservation):
            reservation.use(reservation.charge)

    def released() -> Charged:
        after = reservation.close(released=True)
        return Charged(reservation.account, reservation.run, reservation.before, after)

    try:
        yield released
    finally:
        reservation.close(released=False)  # no effect after a release


@contextmanager
def paying(
    account: Account, charge: Charge, purpose: Purpose, files: Sequence[bytes] = ()
) -> Iterator[Reservation]:
    """Charge an account before the body reads a record; yield the reservation.

    A reservation that the body does not close as released is closed as failed: the charge stays.

    - `files`: Digests of the files that the body reads, which the account keeps, salted.

    **Guarantee.** The mark after which records may be read is on the disk when the body begins.
    What fails before it returns the reservation.
    """
    reservation = account.reserve(charge, purpose)
    with release_on_error(reservation):
        reservation.begin()
    try:
        if files:
            reservation.note_files([salted(reservation.state.salt, content) for content in files])
        yield reservation
    finally:
        reservation.close(released=False)  # nothing, where it is closed


@contextmanager
def release_on_error(reservation: Reservation) -> Iterator[None]:
    """Return a reservation if the body fails before the run is marked as opened."""
    try:
        yield
    except BaseException:
        with suppress(InputError):  # on failure the next run returns it after an hour
            reservation.give_back()
        raise
