"""The charge of a fit, made from the shape of the data and public settings alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from sklearn.base import clone

from taciturn import checks
from taciturn.budget import Account, Reservation
from taciturn.engine import Plan, Run, check_chargeable, reserve, returned_on_error
from taciturn.errors import AccountError, InputError, reason
from taciturn.estimators.ranges import ranges_for
from taciturn.estimators.records import Encoding, Targets, owned_rows, persons_of
from taciturn.estimators.validation import validated
from taciturn.evaluation import (
    PrivateScore,
    ask_held_out,
    check_covered,
    evaluation_plan,
    score_of_totals,
    score_units,
    with_evaluation,
)
from taciturn.privacy import Certificate
from taciturn.problems import (
    Draw,
    Parts,
    Persons,
    Shards,
    check_held_out,
    hold_out,
    origin_of,
    pack,
)
from taciturn.proposal import Proposal, propose
from taciturn.typing import HostArray


def divided(
    parts: Sequence[Int[HostArray, "_m"]],
    share: float | None,
    persons: Persons | None,
    *,
    draw: Draw,
) -> tuple[Sequence[Int[HostArray, "_m"]], Sequence[Int[HostArray, "_h"]]]:
    """Return the rows of each agent to fit to, and those held out of agents that hold some out."""
    if share is None:
        return parts, ()
    kept, held = hold_out(parts, checks.positive("evaluate", share), draw=draw, persons=persons)
    return kept, Parts([part for part in held if len(part)], origin_of(held))


def last_question(proposal: Proposal, plan: Plan) -> Certificate | None:
    """Return the certificate of the evaluation of a fit, before a record is asked; None without."""
    return evaluation_plan(proposal, plan).certificate if proposal.asks else None


def scored(  # noqa: PLR0913, PLR0917 - a fit, and what was held out of it
    proposal: Proposal,
    plan: Plan,
    last: Certificate | None,
    finished: Run,
    held_out: Shards | None,
    targets: Targets,
    seed: int | None,
) -> tuple[PrivateScore | None, Certificate, str]:
    """Return the private score of the weights that a fit released, and the certificate of both.

    An evaluation that fails has no score, and a line that says so, else empty; the certificate
    covers it all the same, since it may have answered.

    Parameters
    ----------
    plan
        Of the fit, with its certificate.
    last
        That of the evaluation alone; None for none, and no score.
    held_out
        The rows that were held out of the fit.
    """
    if last is None or held_out is None:
        return None, plan.certificate, ""
    both = with_evaluation(proposal, plan.certificate, last)
    try:
        asked = ask_held_out(
            proposal, plan, finished.model, held_out, trained_on=finished.origin, seed=seed
        )
        labels = None if targets.labels is None else tuple(map(str, targets.labels.tolist()))
        scale = score_units(proposal, labels, targets.scale)
        return score_of_totals(proposal, asked.plan, asked.totals, scale), both, ""
    except Exception as error:
        line = (
            f"the evaluation failed: {reason(error)}. The fitted model stands, and its certificate "
            "covers the evaluation; private_score_ is None"
        )
        return None, both, line


class Proposed(NamedTuple):
    """Records that are trained on, the proposal for them, and records that are held out."""

    shards: Shards
    proposal: Proposal
    held_out: Shards | None


def proposed_ahead(
    estimator: Any, X: Any, agents: Any, persons: Any = None
) -> tuple[Proposal, bool, tuple[str, ...]]:
    """Return the proposal of a fit, whether all that it takes for public is given, and the columns.

    Columns without names are numbered, as scikit-learn does.

    Raises
    ------
    InputError
        If bounds, labels or the range of the target are not given, or a setting does not suit.

    Notes
    -----
    **Guarantee.** Of X, only shape and names of the columns are looked at: the proposal is made for
    as many rows in the middle of the bounds, with public targets. So it is a function of what is
    public.
    """
    (count, columns), names = _shape(X), _names(X)
    check_chargeable(seed=None, conditional=estimator.bounds is None)
    middle = ranges_for(estimator.bounds, columns, names=names).middle
    rows = np.tile(middle, (count, 1))
    stand_in = clone(estimator)
    validated(stand_in, _like(X, rows), np.zeros(count), missing=False)
    ranges = stand_in._ranges(rows, sparse=False)
    targets = stand_in._targets(estimator._public_answers(count))
    public = all(public for _, _, public in stand_in._facts(ranges, targets))
    encoding = Encoding(ranges, stand_in._feature_map(ranges))
    people = persons_of(persons, count, estimator.rows_per_person, estimator._draw())
    proposal = proposed(stand_in, rows, encoding, targets, agents, people).proposal
    return proposal, public, names or tuple(f"x{k}" for k in range(columns))


def proposed(
    estimator: Any,
    rows: Float[HostArray, "N k"],
    encoding: Encoding,
    targets: Targets,
    agents: ArrayLike | None,
    persons: Persons | None,
) -> Proposed:
    """Return the records of a fit as they are trained on and held out, and their proposal."""
    draw = estimator._draw() if persons is None else persons.draw
    everyone = owned_rows(agents, len(rows), persons, draw=draw)
    if persons is not None:
        persons.check_agents(everyone, estimator.agents_per_person)
    parts, held = divided(everyone, estimator.evaluate, persons, draw=draw)
    check_held_out(parts, held, persons)
    encoded = encoding.rows(rows)

    def packed(owned: Sequence[HostArray]) -> Shards:
        return pack(
            encoded,
            targets.values,
            owned,
            record_norm=encoding.record_norm,
            precision="float64",
            enforce="clip",
            persons=persons,
        )

    shards = packed(parts)
    data = targets.facts(columns=shards.dimension, record_norm=shards.record_norm)
    structure = estimator._structure(shards)
    counts = [len(part) if persons is None else persons.places_of(part) for part in everyone]
    proposal = propose(
        data, counts, estimator._request(targets), structure, dealt=origin_of(everyone).dealt
    )
    return Proposed(shards, proposal, packed(held) if held else None)


def _shape(rows: Any) -> tuple[int, int]:
    """Return the number of rows and columns, which is public; no cell is looked at."""
    shape = tuple(rows.shape) if hasattr(rows, "shape") else _listed(rows)
    if len(shape) != 2 or min(shape) < 1:
        raise InputError("X must have rows and columns, at least one of each")
    return int(shape[0]), int(shape[1])


def _listed(rows: Any) -> tuple[int, ...]:
    try:
        return (len(rows), len(rows[0]))
    except (TypeError, IndexError, KeyError) as error:
        raise InputError("X must be a list of rows, an array or a data frame") from error


def _like(rows: Any, cells: HostArray) -> Any:
    """Return cells as a data frame with the columns of `rows`, if it is one."""
    return pd.DataFrame(cells, columns=rows.columns) if hasattr(rows, "columns") else cells


def _names(rows: Any) -> tuple[str, ...] | None:
    """Return the names of the columns as scikit-learn takes them; None if there are none."""
    columns = getattr(rows, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return tuple(columns)


@contextmanager
def charged_fit(
    account: Account | str | None,
    seed: int | None,
    ahead: Callable[[], tuple[Proposal, bool, tuple[str, ...]]],
) -> Iterator[Reservation | None]:
    """Reserve for a fit, mark it as begun, and yield the reservation; None without an account.

    Parameters
    ----------
    ahead
        Returns the proposal of the fit, made without the records, whether all is public, and the
        columns, to which the account is bound.

    Raises
    ------
    AccountError
        If the account has no room, or was charged for other columns. The message says how many fits
        it was charged for.
    """
    if account is None:
        yield None
        return
    charged = Account(account) if isinstance(account, str) else account
    if not isinstance(charged, Account):
        raise InputError("account must be the name of an account, or a taciturn.budget.Account")
    check_chargeable(seed=seed, conditional=False)
    proposal, public, columns = ahead()
    charged = charged.for_table(columns)
    reservation = _reserved(charged, proposal, proposal.plan(), conditional=not public)
    try:
        with returned_on_error(reservation):
            reservation.begin()
        yield reservation
    finally:
        reservation.close(released=False)  # nothing, if the run has closed it


def _reserved(
    account: Account, proposal: Proposal, plan: Plan, *, conditional: bool
) -> Reservation:
    check_covered(proposal, plan)
    rows = f"{proposal.units:,} rows"
    if proposal.budget.unit == "person":
        rows = proposal.units_text
    what = f"{proposal.method.name}, a fit of {rows}"
    try:
        return reserve(
            account,
            plan,
            seed=None,
            what=what,
            proposal=proposal.digest,
            conditional=conditional or proposal.conditional,
        )
    except AccountError as error:
        runs = account.state().charged
        own = sum(run.process == os.getpid() for run in runs)
        raise AccountError(
            f"{error}; {own} fits of this process were charged to it before, of {len(runs)} runs "
            "in all"
        ) from None
