"""What a plan charges to an account, and a run that is charged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from taciturn.budget import Account, Balance, Charge, Purpose, Reservation, relation_text
from taciturn.budget.charge import Events
from taciturn.engine.planning import Plan
from taciturn.errors import InputError
from taciturn.privacy import GaussianAnswer, Ledger, Messages, NoNoise, Observer, Sum, Terms
from taciturn.problems import Origin
from taciturn.typing import HostArray

# mu is rounded up to this many digits, so that agents alike are written once
_DIGITS = 9
ChargedTo: TypeAlias = Account | Reservation


@dataclass(frozen=True)
class Charged:
    """A run in an account.

    `account`: its name. `run`: what the account calls the run. `before`, `after`: what the account
    held before the reservation, and after the run was closed.
    """

    account: str
    run: str
    before: Balance
    after: Balance


def charge_of(plan: Plan) -> Charge:
    """Return the events of a plan for each agent, as each observer sees them.

    Raises `InputError` if the run is without noise, or its noise has no place in an account.

    **Guarantee.** The events are those that `certify` accounts for: Gaussian answers on all records
    are one answer of the multiplier 1 / mu, the exact total (`taciturn.privacy.compose`), with mu
    rounded up; others are `Ledger.events`. Sensitivities are those on the lattice. An observer of
    sums is credited only where agents send whole steps (`Program.summed`).

    A person at up to M agents is in the answers of all of them, which together are one answer of
    the mu that they have across agents (`Ledger.mu_across`), the certificate's. Every agent is
    charged that mu, and M times the numbers it releases: whichever M agents a person is at, and
    however other runs divide the records, the account adds up at least what the person is in.
    """
    summed, dealt = plan.program.summed, plan.spec.dealt
    return charge_of_ledger(plan.ledger, plan.terms, summed=summed, dealt=dealt)


def charge_of_ledger(ledger: Ledger, terms: Terms, *, summed: bool, dealt: bool = False) -> Charge:
    """Return the same for a ledger on those terms, of one run or of several (`joined`).

    `summed`: whether agents send whole steps, so that an observer of sums may be credited. `dealt`:
    whether records were dealt to the agents at random.
    """
    observer = terms.observer
    if isinstance(ledger.mechanism, NoNoise):
        raise InputError(
            "a run without noise is not private, and no account has room for it; give a finite "
            "epsilon, or leave the account out"
        )
    if ledger.inside is not None:
        raise InputError(
            "noise inside an objective has no place in an account; use a method that adds its "
            "noise to the answer"
        )
    across = min(terms.adjacency.agents_per_person, len(ledger.kind))
    of_sums = None
    if ledger.has_mu:
        messages = _gaussian(_sizes(ledger, Messages(), across))
        if summed:
            of_sums = _gaussian(_sizes(ledger, observer, across))
    elif across == 1:
        messages = ledger.events_by_agent()
    else:
        raise InputError(
            "answers that are not Gaussian on all records are charged agent by agent, and a person "
            "at several agents is in those of all; use Gaussian noise, or let each person be at "
            "one agent"
        )
    values = ledger.most_values() * across
    return Charge(
        relation=relation_text(terms.adjacency.relation),
        unit=terms.adjacency.unit,
        messages=messages,
        summed=of_sums,
        colluders=observer.colluders if isinstance(observer, Sum) else 0,
        values=values,
        least_scale=ledger.finest() if ledger.on_lattice else 0.0,
        dealt=dealt,
    )


def purpose_of(plan: Plan, what: str, proposal: str | None = None) -> Purpose:
    """Return what a plan is for, in words and numbers."""
    certificate = plan.certificate
    return Purpose(
        what=what,
        proposal=proposal,
        plan=plan.digest,
        epsilon=plan.terms.epsilon,
        delta=certificate.delta,
        mu=certificate.mu,
        rounds=plan.rounds,
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
    """Reserve the events of a plan in an account; no record has been read.

    Raises `AccountError` if they do not fit; `InputError` if a seed is given, the certificate is
    conditional on what was read off the records or on somebody's claim of a bound, or the plan does
    not suit the account.
    """
    conditional = conditional or plan.certificate.conditional
    check_chargeable(seed=seed, conditional=conditional)
    return account.reserve(charge_of(plan), purpose_of(plan, what, proposal))


def check_chargeable(*, seed: int | None, conditional: bool, origin: Origin | None = None) -> None:
    """Raise `InputError` for runs whose guarantee an account cannot hold.

    `origin`: where the records come from, if they were divided already.
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
            "the certificate of this run is conditional, on facts that are read off the records or "
            "on a bound that the author of a question claims, and an account promises its "
            "guarantee whatever holds; state what was public beforehand and ask the questions of "
            "taciturn, or leave the account out"
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
    reservation, before = _opened(account, plan, seed, origin)

    def released() -> Charged:
        after = reservation.close(released=True)
        return Charged(reservation.account, reservation.run, before, after)

    try:
        yield released
    finally:
        reservation.close(released=False)  # nothing, if it was closed as released


def _opened(
    account: ChargedTo, plan: Plan, seed: int | None, origin: Origin | None
) -> tuple[Reservation, Balance]:
    """Return a reservation that is open for this plan, and the account before it."""
    check_chargeable(seed=seed, conditional=plan.certificate.conditional, origin=origin)
    if isinstance(account, Reservation):
        account.use(charge_of(plan))
        return account, account.before
    reservation = reserve(account, plan, seed=seed, what=type(plan.program.algorithm).__name__)
    with returned_on_error(reservation):
        reservation.use(reservation.charge)
    return reservation, reservation.before


@contextmanager
def returned_on_error(reservation: Reservation) -> Iterator[None]:
    """Return a reservation if what is done before the mark fails; after it, the charge stays."""
    try:
        yield
    except BaseException:
        with suppress(InputError):  # then it counts until the next run returns it
            reservation.give_back()
        raise


def _sizes(ledger: Ledger, observer: Observer, across: int) -> HostArray:
    """Return what is charged to each agent, as a mu; all of a person's if it may be at several."""
    if across == 1:
        return ledger.mu_per_agent(observer)
    return np.full(ledger.kind.shape[0], ledger.mu_across(observer, across))


def _gaussian(sizes: HostArray) -> tuple[Events, ...]:
    """Return one Gaussian answer for each agent's mu, or none where it is 0."""
    return tuple(((GaussianAnswer(1 / _up(mu)), 1),) if mu > 0 else () for mu in map(float, sizes))


def _up(mu: float) -> float:
    """Return mu, rounded up to some digits."""
    if math.isinf(mu):
        raise InputError("an answer of this run is not bounded or has no noise; plan it with noise")
    unit: float = 10.0 ** (math.floor(math.log10(mu)) - _DIGITS + 1)
    return (math.floor(mu / unit) + 1) * unit
