"""A fit: how its rows are divided, its charge before they are read, and its private score."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from jaxtyping import Float, Int, Num

from taciturn import checks
from taciturn.budget import Account, Reservation
from taciturn.engine import Plan, Run, check_chargeable, reserve, returned_on_error
from taciturn.errors import AccountError, InputError, reason
from taciturn.estimators.records import Encoding, Targets, owned_rows, persons_of
from taciturn.evaluation import (
    PrivateScore,
    ask_held_out,
    check_covered,
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
    check_at_agents,
    check_held_out,
    hold_out,
    origin_of,
    pack,
)
from taciturn.proposal import Proposal
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


def scored(  # noqa: PLR0913, PLR0917 - a fit, and what was held out of it
    proposal: Proposal,
    plan: Plan,
    last: Certificate | None,
    finished: Run,
    held_out: Shards | None,
    targets: Targets,
    seed: int | None,
) -> tuple[PrivateScore | None, Certificate, str]:
    """Return the private score of a fitted model, the certificate of both, and what failed.

    `last` is the certificate of the evaluation alone. An evaluation that fails has no score; the
    certificate covers it all the same, since it may have answered.
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


class Division(NamedTuple):
    """Which rows each agent trains on and which it holds out; a function of no cell.

    Attributes
    ----------
    counts
        Records of each agent, those held out included; with persons, K places for each of them.
    dealt
        Whether a secret draw dealt the rows out.
    """

    parts: Sequence[Int[HostArray, "_m"]]
    held: Sequence[Int[HostArray, "_h"]]
    counts: list[int]
    dealt: bool
    persons: Persons | None

    @classmethod
    def of(cls, estimator: Any, rows: int, agents: Any, persons: Any) -> Division:
        """Return the division of so many rows by the settings of an estimator."""
        draw = estimator._draw()
        people = persons_of(persons, rows, estimator.rows_per_person, draw)
        everyone = owned_rows(agents, rows, people, draw=draw)
        if people is not None:
            check_at_agents(people.most_agents(everyone), estimator.agents_per_person)
        parts, held = divided(everyone, estimator.evaluate, people, draw=draw)
        check_held_out(parts, held, people)
        counts = [len(part) if people is None else people.places_of(part) for part in everyone]
        return cls(parts, held, counts, origin_of(everyone).dealt, people)

    def pack(
        self, encoding: Encoding, rows: Float[HostArray, "N k"], values: Num[HostArray, "N"]
    ) -> tuple[Shards, Shards | None]:
        """Return the records that are trained on, and those held out, if any."""
        encoded = encoding.rows(rows)

        def packed(owned: Sequence[HostArray]) -> Shards:
            return pack(
                encoded,
                values,
                owned,
                record_norm=encoding.record_norm,
                precision="float64",
                enforce="clip",
                persons=self.persons,
            )

        return packed(self.parts), packed(self.held) if self.held else None


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
    """Return the account that a fit charges; None for none.

    Raises
    ------
    InputError
        If it is none of the three, or the fit has a seed.
    """
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

    The account is bound to the columns of `rows`; those without names are numbered.

    Raises
    ------
    AccountError
        If the account has no room, or was charged for other columns. The message says how many fits
        it was charged for.
    """
    if account is None:
        yield None
        return
    columns = names_of(rows) or tuple(f"x{k}" for k in range(shape_of(rows)[1]))
    reservation = _reserved(account.for_table(columns), proposal)
    try:
        with returned_on_error(reservation):
            reservation.begin()
        yield reservation
    finally:
        reservation.close(released=False)  # nothing, if the run has closed it


def _reserved(account: Account, proposal: Proposal) -> Reservation:
    plan = proposal.plan()
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
            conditional=proposal.conditional,
        )
    except AccountError as error:
        runs = account.state().charged
        own = sum(run.process == os.getpid() for run in runs)
        raise AccountError(
            f"{error}; {own} fits of this process were charged to it before, of {len(runs)} runs "
            "in all"
        ) from None
