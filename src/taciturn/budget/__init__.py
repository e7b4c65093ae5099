"""Accounts: budgets of bodies of records that last for many runs, whatever becomes of them."""

from taciturn.budget.account import Account, accounts_in, open_account
from taciturn.budget.balance import Balance, Change, ChargedRun, State, salted
from taciturn.budget.caps import Caps, Guarantee, caps_of
from taciturn.budget.charge import (
    AccountTerms,
    Charge,
    Cost,
    Purpose,
    cost_of,
    relation_of,
    relation_text,
)
from taciturn.budget.filter import check_fits
from taciturn.budget.places import (
    accounts_folder,
    data_folder,
    heads_folder,
    private_folder,
    private_opener,
)
from taciturn.budget.renyi import renyi_divergence
from taciturn.budget.reservation import Reservation
from taciturn.budget.store import (
    Entry,
    add,
    chain_of,
    head_locked,
    holds_head,
    locked,
    read_head,
    sync_folder,
    synchronise,
    write_head,
)
from taciturn.budget.sums import Total, total_of

__all__ = [
    "Account",
    "AccountTerms",
    "Balance",
    "Caps",
    "Change",
    "Charge",
    "ChargedRun",
    "Cost",
    "Entry",
    "Guarantee",
    "Purpose",
    "Reservation",
    "State",
    "Total",
    "accounts_folder",
    "accounts_in",
    "add",
    "caps_of",
    "chain_of",
    "check_fits",
    "cost_of",
    "data_folder",
    "head_locked",
    "heads_folder",
    "holds_head",
    "locked",
    "open_account",
    "private_folder",
    "private_opener",
    "read_head",
    "relation_of",
    "relation_text",
    "renyi_divergence",
    "salted",
    "sync_folder",
    "synchronise",
    "total_of",
    "write_head",
]
