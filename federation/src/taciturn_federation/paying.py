"""A site's account during a run: reserved before the door opens, closed at the end."""

from __future__ import annotations

from contextlib import suppress

from taciturn.budget import Account, Purpose, Reservation, salted
from taciturn.engine import check_chargeable
from taciturn.engine.charging import purpose_of
from taciturn.errors import InputError
from taciturn_federation.journal import Journal, RunRow
from taciturn_federation.local import Local


class Paying:
    """Charges one run of one site to the owner's account, or nowhere if there is none.

    **Guarantee.** The charge of the whole run is on the disk before the door opens, whatever
    becomes of this process. It is replaced by that of the rounds in the journal only where others
    ended the run: an answer is in the journal before it is sent, so none is left out.

    Attributes
    ----------
    run
        What the account calls the run; empty without an account.
    """

    def __init__(self, local: Local, journal: Journal, account: Account | None) -> None:
        self._local, self._journal, self._account = local, journal, account
        self._digest = local.signed.digest
        self._reservation: Reservation | None = None
        self.run = ""

    def reserve(self) -> str:
        """Reserve the run, before anything is accepted, and return what the account calls it.

        One reservation pays for training and last question (`Local.charge_for`).
        """
        if self._account is None:
            return ""
        local = self._local
        check_chargeable(seed=local.seed, conditional=local.certificate.conditional)
        account = charged_account(self._account, local)
        self._reservation = account.reserve(local.charge, self._purpose())
        self.run = self._reservation.run
        return self.run

    def resume(self, row: RunRow) -> None:
        """Find the reservation of a run that was accepted before.

        Raises
        ------
        InputError
            If the run was accepted with an account and none is given, or the other way round.
        """
        if bool(row.reserved) != (self._account is not None):
            had = "with an account" if row.reserved else "without an account"
            raise InputError(f"this run was accepted {had}; resume it as it was accepted")
        self.run = row.reserved
        if self._account is None or row.phase not in ("accepted", "running"):
            return
        found = [run for run in self._account.state().runs if run.run == row.reserved]
        status = found[0].status if found else "returned"
        if status == "opened":
            self._reservation = self._account.reopened(row.reserved)
        elif row.phase == "accepted":  # that of a process that is gone is returned by itself
            self._journal.set_phase(self._digest, "accepted", reserved=self.reserve())
        elif status not in ("released", "failed"):
            raise InputError(
                "the account does not hold this run, which is under way (a restored backup, or "
                "another account); name the account that it was accepted with"
            )

    def open(self) -> None:
        """Write the mark after which records may be asked."""
        if self._reservation is not None and not self._reservation.ready:
            self._reservation.begin()
            salt = self._reservation.state.salt
            self._reservation.note_files([salted(salt, self._local.content)])

    def close(self, *, released: bool, by_others: bool = False) -> None:
        """Write how the run ended; if others ended it, only what was answered is charged."""
        if self._reservation is None:
            return
        answered = None
        if by_others:
            answered = self._local.charge_for(self._journal.rounds(self._digest))
        if self._reservation.begun:
            self._reservation.close(released=released, answered=answered)
        else:
            self.let_go()

    def let_go(self) -> None:
        """Return a reservation that was never used; a run under way stays charged."""
        if self._reservation is not None and not self._reservation.begun:
            # on a full disk it stays, and the next reservation of the account returns it
            with suppress(InputError):
                self._reservation.give_back()

    def _purpose(self) -> Purpose:
        proposal = self._local.signed.proposal
        what = f"{proposal.method.name} in study {self._local.signed.study}"
        return purpose_of(self._local.plan, what, proposal.digest)


def charged_account(account: Account, local: Local) -> Account:
    """Return the account for runs on a site's table, once nothing speaks against it.

    Raises
    ------
    AccountError
        If it was charged for a table with other columns, or another account for this file
        (`taciturn.budget.Account`).
    """
    bound = account.for_table(local.files.columns)
    bound.check_table()
    bound.check_files([local.content])
    return bound
