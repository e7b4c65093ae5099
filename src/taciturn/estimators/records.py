"""The records that a fit is given: their owners, encoded rows and targets, charge and score."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Num

from taciturn import checks
from taciturn.budget import Account, Reservation
from taciturn.engine import Plan, Run, check_chargeable, reserve, returned_on_error
from taciturn.errors import AccountError, InputError, reason
from taciturn.estimators.ranges import Ranges
from taciturn.features import FeatureMap
from taciturn.kernel.privacy import Certificate
from taciturn.kernel.records import (
    Draw,
    Parts,
    Persons,
    Shards,
    check_at_agents,
    check_held_out,
    hold_out,
    numbered,
    origin_of,
    pack,
    random_partition,
)
from taciturn.problems import Named, partition_by
from taciturn.tables import INTERCEPT, Form
from taciturn.tables.cells import canonical
from taciturn.training import DataFacts, Proposal, evaluation
from taciturn.typing import HostArray, Task

Rows = Sequence[Int[HostArray, "_m"]]  # of each agent


def persons_of(labels: Any, rows: int, rows_per_person: Any, draw: Draw) -> Persons | None:
    """Return whose row each row is; None where rows are protected one by one.

    The draw chooses the K = `rows_per_person` rows of a person that count. No `InputError`, such as
    where only labels or only K are given, quotes a label.

    **Guarantee.** Labels that read as one number, 7 and 7.0 and 007, are one person, as in a table:
    a program that reads a column in parts may hold one label as a number and as text.
    """
    if (labels is None) != (rows_per_person is None):
        missing = "persons= in fit" if labels is None else "rows_per_person="
        raise InputError(
            "to protect persons takes one label per row and a public number of rows that a person "
            f"has at most; give {missing} too, or neither"
        )
    if labels is None:
        return None
    most = checks.at_least("rows_per_person", rows_per_person, 1)
    values = np.asarray(labels, dtype=object)
    if values.shape != (rows,):
        raise InputError(
            f"persons has shape {values.shape}; give one label for each of the {rows} rows"
        )
    text = [str(value).strip() for value in values]
    if pd.isna(values).any() or not all(text):
        raise InputError("a row has no label in persons; give every row one")
    same = {label: canonical(label, Form()) for label in set(text)}
    return Persons(numbered(map(same.__getitem__, text)), most, draw)


def owned_rows(
    agents: Any, rows: int, persons: Persons | None = None, *, draw: Draw
) -> list[Int[HostArray, "_m"]]:
    """Return the row indices of each agent.

    `agents` is None for one agent who holds all rows; a whole number A to deal rows, or persons
    if given, out by the draw; or one label per row that names its owner, compared as text.
    `InputError` if A is not from 1 to the number of rows, or a row has no label.

    Examples
    --------
    >>> [part.tolist() for part in owned_rows(["b", "a", "b"], 3, draw=Draw.secret())]
    [[1], [0, 2]]
    """
    if agents is None:
        return [np.arange(rows)]
    if np.ndim(agents) == 0:
        if persons is not None:
            return persons.deal(checks.at_least("agents", agents, 1), draw)
        return random_partition(rows, checks.at_least("agents", agents, 1), draw=draw)
    labels = np.asarray(agents)
    if labels.shape != (rows,):
        raise InputError(
            f"agents has shape {labels.shape}; give one label for each of the {rows} rows, or a "
            "number of agents"
        )
    if pd.isna(labels).any():
        raise InputError("a row has no owner in agents; give every row a label")
    return partition_by(labels.astype(str))


def divided(
    parts: Rows, share: float | None, persons: Persons | None, *, draw: Draw
) -> tuple[Rows, Rows]:
    """Return the rows of each agent to fit to, and those held out of agents that hold some out."""
    if share is None:
        return parts, ()
    share = checks.positive("evaluate", share)
    kept, held = hold_out(parts, share, draw=draw, persons=persons)
    held_out = [part for part in held if len(part)]
    return kept, Parts(held_out, origin_of(held))


class Targets(NamedTuple):
    """How targets are encoded, and the map from encoded scores to the user's units.

    - `scale`, `offset`: a score z of the encoded problem is `offset + scale * z` in those units;
    - `labels`: the classes in the order of the scores, sorted; None for a regression.
    """

    loss: Named
    scale: float
    offset: float
    labels: HostArray | None

    def facts(self, *, columns: int, record_norm: float) -> DataFacts:
        """Return the public facts about records of so many encoded columns."""
        classes = None if self.labels is None else len(self.labels)
        task: Task = "regression"
        if classes is not None:
            task = "binary" if classes == 2 else "multiclass"
        return DataFacts(
            name="records",
            task=task,
            classes=classes,
            columns=columns,
            record_norm=record_norm,
            table=None,
        )


@dataclass(frozen=True, eq=False)
class Encoding:
    """The ranges of the columns, and the public map that encoded rows go through, if any."""

    ranges: Ranges
    features: FeatureMap | None

    @property
    def record_norm(self) -> float:
        """The largest norm of a row."""
        return (self.features or self.ranges).record_norm

    @property
    def columns(self) -> int:
        """D, the number of entries of a row."""
        ranges = self.ranges
        if self.features is not None:
            return len(self.features.names)
        return len(ranges.minimum) + len(ranges.indicators) + 1

    def rows(self, cells: Float[HostArray, "N k"]) -> Float[HostArray, "N D"]:
        """Return the rows that agents hold."""
        encoded = self.ranges.encoded(cells)
        return encoded if self.features is None else self.features.apply(encoded)

    def in_units(
        self, weights: Float[HostArray, "D K"]
    ) -> tuple[Float[HostArray, "F K"], Float[HostArray, "F K"], Float[HostArray, "K"]]:
        """Return slopes, jumps and intercepts of a model whose weights are per entry of `rows`.

        A column with range [a, b] is encoded as (x - c) / h, c its middle and h half its width. So
        a weight w is w / h per unit and moves the intercept by -w c / h. A jump is what a missing
        cell adds, 0 where the column has no indicator. With a feature map slopes are per feature
        but the constant, and all jumps are 0, since the indicators are among the features.
        """
        if self.features is not None:
            constant = self.features.names.index(INTERCEPT)
            slopes = np.delete(weights, constant, axis=0)
            return slopes, np.zeros_like(slopes), weights[constant]
        ranges, columns = self.ranges, len(self.ranges.minimum)
        slopes = weights[:columns] / (ranges.width[:, None] / 2)
        missing = np.zeros_like(slopes)
        missing[list(ranges.indicators)] = weights[columns:-1]
        return slopes, missing, weights[-1] - ranges.middle @ slopes

    def scores(
        self,
        cells: Float[HostArray, "N k"],
        slopes: Float[HostArray, "F *K"],
        jumps: Float[HostArray, "F *K"],
        intercepts: Float[HostArray, "*K"],
    ) -> Float[HostArray, "N *K"]:
        """Return the scores of rows, with cells clipped, and filled in, as in `rows`."""
        if self.features is not None:
            constant = self.features.names.index(INTERCEPT)
            scores: HostArray = np.delete(self.rows(cells), constant, axis=1) @ slopes + intercepts
            return scores
        holes = np.isnan(cells)
        inside = np.where(holes, self.ranges.middle, self.ranges.clipped(cells))
        scores = inside @ slopes + intercepts
        return scores + holes @ jumps if holes.any() else scores


class Division(NamedTuple):
    """Which rows each agent trains on and which it holds out; a function of no cell.

    - `counts`: records of each agent, those held out included; with persons, K places for each;
    - `dealt`: whether a secret draw dealt the rows out.
    """

    parts: Rows
    held: Rows
    counts: list[int]
    dealt: bool
    persons: Persons | None

    @classmethod
    def of(cls, estimator: Any, rows: int, agents: Any, persons: Any) -> Division:
        """Return the division of so many rows by the settings of an estimator."""
        draw = Draw.for_noise(estimator.random_state, estimator.split_seed)
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
        packed = partial(
            pack,
            encoding.rows(rows),
            values,
            record_norm=encoding.record_norm,
            precision="float64",
            enforce="clip",
            persons=self.persons,
        )
        return packed(self.parts), packed(self.held) if self.held else None


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
