"""The account of a site: chosen when it joins, and charged by every run of the study."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from taciturn.budget import Account, AccountTerms, Guarantee, accounts_in, open_account
from taciturn.cli import ACCOUNT_OPTIONS
from taciturn.errors import InputError
from taciturn.report import promise
from taciturn.tables import read_files
from taciturn_federation.folders import SiteFolder

# a condition in the certificate of a site that charges no account
NOWHERE = (
    "the run was charged nowhere: this site has no account, so nothing limits what all runs on its "
    "records reveal together"
)


class SiteAccount(NamedTuple):
    """The account that a site chooses when it joins; `open` creates it if there is none."""

    account: Account
    terms: AccountTerms
    guarantee: Guarantee | None  # the one that its owner stated

    @classmethod
    def chosen(
        cls, site: SiteFolder, name: str | None, epsilon: float | None, delta: float | None
    ) -> SiteAccount:
        """Return the account of a site, by default of the site's name; nothing is written.

        An existing account is used if it suits. Raises `InputError` if it does not: it protects
        another unit, has another guarantee than the stated one, or was charged for other columns;
        if another account was charged for the file; or if there is none and its owner states no
        total budget.
        """
        if (epsilon is None) != (delta is None):
            raise InputError("--epsilon and --delta state the account's total; give both")
        stated = None if epsilon is None or delta is None else Guarantee(epsilon, delta)
        account = Account(name or site.name)
        chosen = cls(account, site.invitation.account_terms, stated)
        if account.name in {one.name for one in accounts_in()}:
            chosen._check_suits(site)
        elif stated is None:
            raise InputError(
                f"site {site.name} has no account yet, which limits what all runs on its records "
                "reveal together: state its total with --epsilon and --delta, name another account "
                "with --account, or give --no-account, and its runs are charged nowhere"
            )
        return chosen

    def open(self) -> Account:
        """Return the account, which is opened if there is none of its name."""
        if self.guarantee is not None and self.account.name not in {a.name for a in accounts_in()}:
            return open_account(self.account.name, self.guarantee, self.terms)
        return self.account

    def _check_suits(self, site: SiteFolder) -> None:
        state, name = self.account.state(), self.account.name
        if state.terms.unit != self.terms.unit:
            raise InputError(
                f"account {name!r} protects one {state.terms.unit} and the study one "
                f"{self.terms.unit}, which do not compose; name another with --account"
            )
        if self.guarantee is not None and state.guarantee != self.guarantee:
            raise InputError(
                f"there is an account {name!r} already, with {promise(state.guarantee)}; leave "
                "--epsilon and --delta out to use it, enlarge it (taciturn budget raise), or name "
                "another with --account"
            )
        files = read_files(site.source(), site.invitation.table.bounds)
        self.account.for_table(files.columns).check_table()
        self.account.check_files([_digest(site.source().path)])


def _digest(file: Path) -> bytes:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def site_account(site: SiteFolder, given: Mapping[str, Any]) -> Account | None:
    """Return the account that options name, or else that of the site; None without one."""
    name, folder, *another = (given[option] for option in ACCOUNT_OPTIONS)
    name = name or site.facts.account
    return None if name is None else Account(name, folder, None, None, *map(bool, another))


def charged_account(site: SiteFolder, given: Mapping[str, Any], *, nowhere: bool) -> Account | None:
    """Return the account that a run of a site charges; None only if its owner wants none.

    Raises `InputError` if there is none and its owner does not say so, or says both.
    """
    if nowhere and given["account"] is not None:
        raise InputError("--account names an account and --no-account none; leave one out")
    account = None if nowhere else site_account(site, given)
    if account is None and not nowhere:
        raise InputError(
            f"site {site.name} has no account, so nothing would limit what its runs reveal "
            "together; name one with --account (taciturn budget open), or give --no-account, and "
            "the run is charged nowhere"
        )
    return account
