"""The records of the agents of one process, where a run is divided among several."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Bool

from tacit.datasets import Dataset
from tacit.errors import InputError
from tacit.features import feature_map_named
from tacit.problems import Devices, Draw, Parts, origin_of
from tacit.tables import Files, Report, Table, table_of
from tacit.training.data import DEFAULT_AGENTS, DividedData, Local, inputs_for, parts_of
from tacit.training.rows import DividedRows, counts_of, divided_rows
from tacit.typing import HostArray, Precision


def local_part(data: DividedData, devices: Devices) -> DividedData:
    """Return the training records of this process's agents, and the test records.

    The rest is let go: published records, which were loaded as a whole.
    """
    rows = DividedRows(data.owners, data.held_out, data.persons)
    kept, local = _local(rows, len(data.parts.train_targets), devices)
    parts = data.parts._replace(
        train_features=data.parts.train_features[kept],
        train_targets=data.parts.train_targets[kept],
    )
    return replace(
        data,
        dataset=_without_rows(data.dataset, data.dataset.train_rows),
        parts=parts,
        owners=local.owners,
        held_out=local.held_out,
        persons=local.persons,
        local=Local(devices, data.counts, data.held_out_counts),
    )


def divide_local(  # noqa: PLR0913 - as `divide`
    files: Files,
    agents: int | None,
    devices: Devices,
    *,
    split_seed: int,
    draw: Draw,
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
    of its agents, and the test records.

    Parameters
    ----------
    devices
        Those that the agents are divided among.
    draw
        The same in every process, or a record would be at two agents.
    precision, report
        As for `table_of`.

    Raises
    ------
    InputError
        As `divide` and `table_of`, and if the agents cannot be divided among the devices.
    """
    rows = divided_rows(
        files.owners,
        files.persons,
        files.rows,
        agents,
        default,
        draw=draw,
        rows_per_person=rows_per_person,
        agents_per_person=agents_per_person,
        evaluate=evaluate,
    )
    of_all = Local(devices, *(counts_of(each, rows.persons) for each in rows[:2]))
    kept, local = _local(rows, files.rows, devices)
    table = table_of(files, precision=precision, report=report, keep=kept)
    feature_map = None if features is None else feature_map_named(features, inputs_for(table))
    return DividedData(
        _without_rows(table, files.rows),
        parts_of(table, split_seed, feature_map, draw),
        local.owners,
        feature_map,
        features,
        local.held_out,
        local.persons,
        local=of_all,
    )


def _local(
    rows: DividedRows, count: int, devices: Devices
) -> tuple[Bool[HostArray, " N"], DividedRows]:
    """Return which of the rows this process keeps, and whose each of those that are kept is."""
    agents = devices.local(len(rows.owners))
    owners, held = (each[agents.start : agents.stop] for each in rows[:2])
    if any(len(part) == 0 for part in rows.held_out):
        raise InputError(
            "an agent has too few records to hold some out; among several processes all agents "
            "answer the evaluation, so hold out a larger share"
        )
    kept = np.zeros(count, bool)
    kept[np.concatenate([*owners, *held])] = True
    place, persons = np.cumsum(kept) - 1, rows.persons
    return kept, DividedRows(
        Parts([place[part] for part in owners], origin_of(rows.owners)),
        Parts([place[part] for part in held], origin_of(rows.held_out)),
        None if persons is None else persons.among(kept),
    )


def _without_rows(dataset: Dataset | Table, train_rows: int) -> Dataset | Table:
    """Return a data set of as many rows, all zeros that take no memory: for its public facts."""
    tests = len(dataset.targets) - dataset.train_rows
    shape = (train_rows + tests, len(dataset.feature_names))
    empty = np.broadcast_to(np.zeros((), dataset.features.dtype), shape)
    if isinstance(dataset, Dataset):
        return replace(dataset, features=empty)
    targets = np.broadcast_to(np.zeros((), dataset.targets.dtype), shape[:1])
    return replace(dataset, features=empty, targets=targets, train_rows=train_rows, persons=None)
