"""The records of this process's own agents, where a run is divided among several processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Int

from tacit.datasets import Dataset
from tacit.errors import InputError
from tacit.features import feature_map_named
from tacit.problems import Devices, Persons, check_at_one_agent, hold_out
from tacit.tables import Files, Report, Table, table_of
from tacit.training.data import (
    DEFAULT_AGENTS,
    DividedData,
    Own,
    counts_of,
    inputs_for,
    owners_of,
    parts_of,
    persons_of,
)
from tacit.typing import HostArray, Precision


def own_part(data: DividedData, devices: Devices) -> DividedData:
    """Return the training records of this process's agents, and the test records.

    The rest is let go: published records, which were loaded as a whole.
    """
    rows = len(data.parts.train_targets)
    kept, owners, held = _kept(data.owners, data.held_out, rows, devices)
    parts = data.parts._replace(
        train_features=data.parts.train_features[kept],
        train_targets=data.parts.train_targets[kept],
    )
    return replace(
        data,
        dataset=_without_rows(data.dataset, data.dataset.train_rows),
        parts=parts,
        owners=owners,
        held_out=held,
        persons=_some(data.persons, kept),
        own=Own(devices, data.counts, data.held_out_counts),
    )


def divide_own(  # noqa: PLR0913 - as `divide`
    files: Files,
    agents: int | None,
    devices: Devices,
    *,
    split_seed: int,
    default: int = DEFAULT_AGENTS,
    features: str | None = None,
    rows_per_person: int | None = None,
    agents_per_person: int = 1,
    evaluate: float | None = None,
    precision: Precision = "float64",
    report: Report | None = None,
) -> DividedData:
    """Return what `divide` makes of a table's files, with the rows of this process's agents alone.

    Every process counts the files, so that all know whose each row is; of the cells it keeps those
    of its own agents, and the test records.

    Parameters
    ----------
    devices
        Those that the agents are divided among.
    precision, report
        As for `table_of`.

    Raises
    ------
    InputError
        As `divide` and `table_of`, and if the agents cannot be divided among the devices.
    """
    persons = persons_of(files.persons, rows_per_person)
    owners = owners_of(
        files.owners,
        files.rows,
        agents,
        default,
        split_seed=split_seed,
        persons=persons,
        agents_per_person=agents_per_person,
    )
    held: tuple[HostArray, ...] = ()
    if evaluate is not None:
        check_at_one_agent(agents_per_person)
        owners, held = hold_out(owners, evaluate, seed=split_seed, persons=persons)
    own = Own(devices, counts_of(owners, persons), counts_of(held, persons))
    kept, mine, held = _kept(owners, held, files.rows, devices)
    table = table_of(files, precision=precision, report=report, keep=kept)
    feature_map = None if features is None else feature_map_named(features, inputs_for(table))
    parts = parts_of(table, split_seed, feature_map)
    whole = _without_rows(table, files.rows)
    persons = _some(persons, kept)
    return DividedData(
        whole, parts, mine, split_seed, feature_map, features, held, persons, own=own
    )


def _kept(
    owners: Sequence[Int[HostArray, "_m"]],
    held: Sequence[Int[HostArray, "_h"]],
    rows: int,
    devices: Devices,
) -> tuple[Bool[HostArray, " N"], tuple[HostArray, ...], tuple[HostArray, ...]]:
    """Return which rows this process keeps, and its agents' numbers among those that are kept."""
    own = devices.own(len(owners))
    mine, aside = owners[own.start : own.stop], held[own.start : own.stop]
    if held and any(len(part) == 0 for part in held):
        raise InputError(
            "an agent has too few records to hold some out; among several processes all agents "
            "answer the evaluation, so hold out a larger share"
        )
    kept = np.zeros(rows, bool)
    kept[np.concatenate([*mine, *aside])] = True
    place = np.cumsum(kept) - 1
    return kept, tuple(place[part] for part in mine), tuple(place[part] for part in aside)


def _some(persons: Persons | None, kept: Bool[HostArray, " N"]) -> Persons | None:
    return None if persons is None else Persons(persons.numbers[kept], persons.rows_per_person)


def _without_rows(dataset: Dataset | Table, train_rows: int) -> Dataset | Table:
    """Return a data set of as many rows, all zeros that take no memory: for its public facts."""
    tests = len(dataset.targets) - dataset.train_rows
    shape = (train_rows + tests, len(dataset.feature_names))
    empty = np.broadcast_to(np.zeros((), dataset.features.dtype), shape)
    if isinstance(dataset, Dataset):
        return replace(dataset, features=empty)
    targets = np.broadcast_to(np.zeros((), dataset.targets.dtype), shape[:1])
    return replace(dataset, features=empty, targets=targets, train_rows=train_rows, persons=None)
