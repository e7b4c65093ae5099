"""A user's table, ready for training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Num

from tacit.datasets.dataset import Task
from tacit.datasets.tables.bounds import Bounds, Categories, Numeric, read_bounds
from tacit.datasets.tables.encode import encode, encoded_names, encoded_norm
from tacit.datasets.tables.read import read_agents, read_table
from tacit.errors import InputError
from tacit.problems import partition_by
from tacit.typing import HostArray


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a table and what is public about it are to be found.

    Attributes
    ----------
    path
        A CSV or Parquet file, or a folder with one such file per agent.
    target
        The column to be predicted.
    bounds
        The TOML file of the public facts; None if the user named none, which is refused.
    agent_column
        The column that says whose record a row is.
    test
        A file of test records, which are public by declaration.
    """

    path: Path
    target: str
    bounds: Path | None
    agent_column: str | None = None
    test: Path | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Private records as numbers, with what is public about them; see `encode`.

    Attributes
    ----------
    features, targets
        (N, D) and (N,): the training rows, then the test rows.
    train_rows
        How many rows are for training; the rest, which may be none, are public test rows.
    owners
        The rows of each agent; None if they are to be dealt out.
    clipped
        How many cells of training rows lay outside the bounds: private.
    record_norm
        sqrt(k + 1) for k columns; no encoded row is longer.
    conditions
        Facts taken as public; a certificate holds under these.
    """

    name: str
    title: str
    source: str
    bounds: Bounds
    features: Float[HostArray, "N D"]
    targets: Num[HostArray, "N"]
    train_rows: int
    owners: tuple[Int[HostArray, "m"], ...] | None
    clipped: int
    conditions: tuple[str, ...]

    @property
    def public(self) -> bool:
        """False: un-noised metrics on the training records may not be shown."""
        return False

    @property
    def licence(self) -> str:
        """Nothing is known of it."""
        return "not stated"

    @property
    def record_norm(self) -> float:
        """The largest norm of an encoded row, a public number."""
        return encoded_norm(self.bounds)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the D encoded columns."""
        return encoded_names(self.bounds)

    @property
    def task(self) -> Task:
        """Regression for a numeric target; binary for two labels, multiclass for more."""
        if isinstance(self.bounds.target, Numeric):
            return "regression"
        return "binary" if self.classes == 2 else "multiclass"

    @property
    def classes(self) -> int | None:
        """How many labels the public list has; None for a regression."""
        target = self.bounds.target
        return len(target.values) if isinstance(target, Categories) else None


def load_table(source: Source) -> Table:
    """Return the table that `source` names, encoded with its public facts.

    Raises
    ------
    InputError
        If a file cannot be read, no bounds are given, or file and bounds do not fit together.
    """
    bounds = _bounds(source)
    frames = _frames(source.path)
    frame = pd.concat(frames, ignore_index=True)
    owners = _owners(source, frames, frame)
    if source.agent_column is not None:
        frame = frame.drop(columns=source.agent_column)
    train = encode(frame, bounds, with_target=True)
    assert train.targets is not None
    _check_classes(train.targets, bounds)
    features, targets = train.features, train.targets
    if source.test is not None:
        test = encode(_test_frame(source, source.test), bounds, with_target=True)
        assert test.targets is not None
        features = np.concatenate([features, test.features])
        targets = np.concatenate([targets, test.targets])
    return Table(
        name=str(source.path),
        title=f"{source.path.name}: {source.target}",
        source=str(source.path),
        bounds=bounds,
        features=features,
        targets=targets,
        train_rows=len(frame),
        owners=owners,
        clipped=train.clipped,
        conditions=_conditions(source, bounds),
    )


def _bounds(source: Source) -> Bounds:
    if source.bounds is None:
        raise InputError(
            "no bounds file is given: how much noise a record needs must follow from public ranges "
            f"and lists, never from the records; tacit bounds {source.path} --target "
            f"{source.target} > bounds.toml prints one to start from, then pass --bounds "
            "bounds.toml"
        )
    bounds = read_bounds(source.bounds)
    if bounds.target_name != source.target:
        raise InputError(
            f"the target is {source.target!r} and the bounds file {source.bounds} is for "
            f"{bounds.target_name!r}; use one name in both"
        )
    if source.agent_column in {source.target, *bounds.columns}:
        raise InputError(
            f"the agent column {source.agent_column!r} is described in the bounds file as a "
            "column to learn from; take it out there"
        )
    return bounds


def _frames(path: Path) -> list[pd.DataFrame]:
    return read_agents(path) if path.is_dir() else [read_table(path)]


def _owners(
    source: Source, frames: list[pd.DataFrame], frame: pd.DataFrame
) -> tuple[HostArray, ...] | None:
    if source.agent_column is None:
        if not source.path.is_dir():
            return None
        ends = np.cumsum([len(one) for one in frames])
        return tuple(np.split(np.arange(ends[-1]), ends[:-1]))
    if source.path.is_dir():
        raise InputError(
            "a folder has one file per agent, so there is no agent column; leave --agent-column out"
        )
    if source.agent_column not in frame.columns:
        raise InputError(
            f"the table has no column {source.agent_column!r}; name one of its columns"
        )
    return tuple(partition_by(frame[source.agent_column].to_numpy(str)))


def _test_frame(source: Source, path: Path) -> pd.DataFrame:
    frame = read_table(path)
    return frame.drop(columns=[c for c in frame.columns if c == source.agent_column])


def _check_classes(targets: HostArray, bounds: Bounds) -> None:
    if isinstance(bounds.target, Categories) and len(np.unique(targets)) == 1:
        raise InputError(
            f"every row of the target {bounds.target_name!r} has the same label; training needs at "
            "least two classes"
        )


def _conditions(source: Source, bounds: Bounds) -> tuple[str, ...]:
    if bounds.origin == "data":
        ranges = (
            "ranges, category lists and labels were filled in from the records themselves (source "
            '= "data" in the bounds file): the certificate holds only if they would be the same '
            "whatever one record says"
        )
    else:
        ranges = (
            "ranges, category lists and labels of the bounds file are public, as its author "
            'declares (source = "public")'
        )
    conditions = (ranges, "the number of records of each agent is public")
    if source.test is None:
        return conditions
    return (*conditions, f"the test records in {source.test.name} are public, by declaration")
