"""Accounts: lasting privacy budgets of bodies of records, charged by every run."""

from taciturn.budget.account import Account, Reservation, accounts_in, open_account
from taciturn.budget.balance import Balance, ChargedRun, State, check_fits, salted
from taciturn.budget.caps import Guarantee, caps_of
from taciturn.budget.charge import (
    AccountTerms,
    Charge,
    Purpose,
    Total,
    cost_of,
    relation_of,
    relation_text,
    renyi_divergence,
    total_of,
)
from taciturn.budget.store import (
    Entry,
    accounts_folder,
    add,
    chain_of,
    contains_head,
    data_folder,
    head_lock,
    heads_folder,
    locked,
    private_folder,
    private_opener,
    read_head,
    sync_folder,
    synchronise,
    write_head,
)

__all__ = [
    "Account", "AccountTerms", "Balance", "Charge", "ChargedRun", "Entry", "Guarantee", "Purpose",
    "Reservation", "State", "Total", "accounts_folder", "accounts_in", "add", "caps_of", "chain_of",
    "check_fits", "contains_head", "cost_of", "data_folder", "head_lock", "heads_folder", "locked",
    "open_account", "private_folder", "private_opener", "read_head", "relation_of", "relation_text",
    "renyi_divergence", "salted", "sync_folder", "synchronise", "total_of", "write_head",
]  # fmt: skip
