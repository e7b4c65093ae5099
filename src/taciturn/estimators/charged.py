"""What a fit costs: its charge before rows are read, and its private score."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from taciturn import evaluation
from taciturn.budget import Account, Reservation
from taciturn.engine import Plan, Run, check_chargeable, reserve, returned_on_error
from taciturn.errors import AccountError, InputError, reason
from taciturn.estimators.records import Targets
from taciturn.privacy import Certificate
from taciturn.problems import Shards
from taciturn.proposal import Proposal


def scored(  # noqa: PLR0913, PLR0917 - a fit, and what was held out of it
    proposal: Proposal,
    plan: Plan,
    last: Certificate | None,
    finished: Run,
    held_out: Shards | None,
    targets: Targets,
    seed: int | None,
) -> tuple[evaluation.PrivateScore | None, Certificate, str]:
    """Return the private score of a fitted model, the certificate of both, and what failed.

    `last` is the certificate of the evaluation alone. An evaluation that fails has no score; the
    certificate covers it all the same, since it may have answered.
    """
    if last is None or held_out is None:
        return None, plan.certificate, ""
    both = evaluation.with_evaluation(proposal, plan.certificate, last)
    try:
        asked = evaluation.ask_held_out(
            proposal, plan, finished.model, held_out, trained_on=finished.origin, seed=seed
        )
        labels = None if targets.labels is None else tuple(map(str, targets.labels.tolist()))
        scale = evaluation.score_units(proposal, labels, targets.scale)
        return evaluation.score_of_totals(proposal, asked.plan, asked.totals, scale), both, ""
    except Exception as error:
        line = (
            f"the evaluation failed: {reason(error)}. The fitted model stands, and its certificate "
            "covers the evaluation; private_score_ is None"
        )
        return None, both, line


def shape_of(rows: Any) -> tuple[int, int]:
    """Return the number of rows and columns, which is public; no cell is looked at."""
    if hasattr(rows, "shape"):
        shape = tuple(rows.shape)
    else:
        try:
            shape = (len(rows), len(rows[0]))
        except (TypeError, IndexError, KeyError) as error:
            raise InputError("X must be a list of rows, an array or a data frame") from error
    if len(shape) != 2 or min(shape) < 1:
        raise InputError("X must have rows and columns, at least one of each")
    return int(shape[0]), int(shape[1])


def names_of(rows: Any) -> tuple[str, ...] | None:
    """Return the names of the columns as scikit-learn takes them; None if there are none."""
    names = tuple(getattr(rows, "columns", ()))
    texts = [isinstance(name, str) for name in names]
    if any(texts) and not all(texts):
        raise InputError("some names of the columns of X are no text; name every column by a text")
    return names if any(texts) else None


def account_of(account: Account | str | None, seed: int | None) -> Account | None:
    """Return the account that a fit charges; `InputError` if it is none, or the fit has a seed."""
    if account is None:
        return None
    if not isinstance(account, Account | str):
        raise InputError("account must be the name of an account, or a taciturn.budget.Account")
    check_chargeable(seed=seed, conditional=False)
    return Account(account) if isinstance(account, str) else account


@contextmanager
def charged_fit(
    account: Account | None, proposal: Proposal, rows: Any
) -> Iterator[Reservation | None]:
    """Reserve for a fit, mark it as begun, and yield the reservation; None without an account.

    The account is bound to the columns of `rows`; those without names are numbered. An
    `AccountError`, if it has no room or was charged for other columns, says for how many fits it
    was charged.
    """
    if account is None:
        yield None
        return
    columns = names_of(rows) or tuple(f"x{k}" for k in range(shape_of(rows)[1]))
    account, plan = account.for_table(columns), proposal.plan()
    evaluation.check_covered(proposal, plan)
    person = proposal.budget.unit == "person"
    what = proposal.units_text if person else f"{proposal.units:,} rows"
    try:
        reservation = reserve(
            account,
            plan,
            seed=None,
            what=f"{proposal.method.name}, a fit of {what}",
            proposal=proposal.digest,
            conditional=proposal.conditional,
        )
    except AccountError as error:
        runs = account.state().charged
        own = sum(run.process == os.getpid() for run in runs)
        raise AccountError(
            f"{error}; {own} fits of this process were charged to it before, of {len(runs)} runs "
            "in all"
        ) from None
    try:
        with returned_on_error(reservation):
            reservation.begin()
        yield reservation
    finally:
        reservation.close(released=False)  # nothing, if the run has closed it
