"""Public maps from encoded records to the features of a linear model."""

from __future__ import annotations

import hashlib
import inspect
import math
import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pooch
from jaxtyping import Float, Num

from taciturn import checks
from taciturn.errors import InputError
from taciturn.typing import HostArray

MISSING = "missing"  # what the entry of missing cells is called


class Variable(NamedTuple):
    """A column of the user's table among the encoded ones, as formulas name it.

    - `first`: The place of its number, or of the first of its `values`.
    - `values`: Its categories; None for a number.
    - `plain`: Whether a number is one entry in [-1, 1], perhaps followed by an indicator of missing
      cells, and a category one entry that is 1, the others being 0.
    - `square`: The largest square of the norm of its entries.
    - `missing`: Whether its cells may be missing.
    - `indicator`: Whether missing cells of a number are marked.
    - `zero`, `unit`: An entry e stands for the number zero + unit e, on the column's scale.
    - `scale`, `ends`: The scale of its numbers, and their public range.
    - `edges`: The public cut points of its numbers, in their units; none without bins.
    """

    name: str
    first: int
    values: tuple[str, ...] | None
    plain: bool
    zero: float = 0.0
    unit: float = 1.0
    scale: str = "linear"
    ends: tuple[float, float] = (-1.0, 1.0)
    square: float = 1.0
    missing: bool = False
    indicator: bool = False
    edges: tuple[float, ...] = ()

    @property
    def reference(self) -> str:
        """The first value that is no missing cell, with which a formula compares the others."""
        values = self.values or ()
        return next((one for one in values if one), "")


@dataclass(frozen=True)
class Inputs:
    """The public facts about encoded records before a feature map."""

    names: tuple[str, ...]
    record_norm: float  # R: packing clips every row to it
    numbers: tuple[int, ...] = ()  # indices of the columns of numbers in [-1, 1]
    constant: int | None = None  # index of the column that is 1 in every row
    # height, width and channels; columns are ordered by channel, then by row
    picture: tuple[int, int, int] | None = None
    variables: tuple[Variable, ...] = ()  # of a table, in its order
    target: Variable | None = None  # of a table; its place is behind the columns (`joined`)

    def __post_init__(self) -> None:
        checks.positive("record_norm", self.record_norm)
        columns = len(self.names)
        if columns == 0:
            raise InputError("there is no column to compute features of; give at least one")
        marked = (*self.numbers, *(() if self.constant is None else (self.constant,)))
        if any(not 0 <= index < columns for index in marked) or len(set(marked)) < len(marked):
            raise InputError(
                f"numbers are columns {self.numbers} and the constant is {self.constant}; they "
                f"must be different, from 0 to {columns - 1}"
            )
        if self.picture is not None and math.prod(self.picture) != columns:
            raise InputError(
                f"a picture of {' x '.join(map(str, self.picture))} has "
                f"{math.prod(self.picture)} numbers, the records have {columns}"
            )

    @property
    def constants(self) -> tuple[str, ...]:
        """The name of the column that is 1 in every row, if there is one."""
        return () if self.constant is None else (self.names[self.constant],)


class FeatureMap(ABC):
    """A public function of one record, the same for every agent.

    **Guarantee.** A map is a function of one row and of public facts (`Inputs`, its settings and
    seed), so neighbouring data sets stay neighbouring: replacing one record replaces one row of
    features. Packing clips rows to `record_norm`, so no sensitivity depends on the bound that a map
    states; too small a bound costs accuracy only.
    """

    @property
    def costly(self) -> bool:
        """Whether features of published records are worth caching on disk; by default not."""
        return False

    @property
    @abstractmethod
    def columns(self) -> int:
        """The number K of features, computed without building their names."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of the K features."""

    @property
    @abstractmethod
    def record_norm(self) -> float:
        """A bound on the Euclidean norm of a row of features."""

    def block_of(self, number: int) -> range:
        """Return the features of the number in column `number`, in its order, in a monotone model.

        They are such that a score rises with the number if their weights do, and that of the column
        is at least 0. Raises `InputError` if the map has no such features.
        """
        raise InputError(
            f"a score in {type(self).__name__} features cannot be monotone in column {number}; use "
            "hats, bins, or the columns themselves"
        )

    @property
    def fixed(self) -> tuple[tuple[int, float], ...]:
        """The features whose coefficient is given, and that coefficient: none by default."""
        return ()

    def joined(
        self,
        rows: Float[HostArray, "N D"],
        targets: Num[HostArray, "N"],  # noqa: ARG002 - for maps that need it
    ) -> Float[HostArray, "N _"]:
        """Return the rows that `apply` is given: by default those without their targets."""
        return rows

    def respond(
        self,
        rows: Float[HostArray, "N D"],  # noqa: ARG002 - for maps that need it
        targets: Num[HostArray, "N"],
    ) -> Num[HostArray, "N"]:
        """Return the targets of records: by default those of the table."""
        return targets

    @abstractmethod
    def apply(self, rows: Float[HostArray, "N D"]) -> Float[HostArray, "N K"]:
        """Return the features of records, in single precision or better."""


def applied(
    feature_map: FeatureMap, rows: Float[HostArray, "N D"], *, folder: Path | None = None
) -> Float[HostArray, "N K"]:
    """Return the features of *published* records, mapped from a disk cache, where they are put.

    A file is named by a digest of the rows, of the map with its settings and of its code. If
    `folder` (None: `features` in the user's cache folder) cannot be written, nothing is cached.

    **Guarantee.** Packing clips features from the cache to the record norm, like computed ones; a
    manipulated file costs accuracy only.
    """
    place = Path(pooch.os_cache("taciturn")) / "features" if folder is None else folder
    code = inspect.getsource(inspect.getmodule(type(feature_map)))  # type: ignore[arg-type]
    content = hashlib.sha256(f"{feature_map!r}{rows.shape}{rows.dtype}{code}".encode())
    content.update(np.ascontiguousarray(rows).view(np.uint8).data)
    path = place / f"{content.hexdigest()}.npy"
    with suppress(OSError, ValueError, EOFError):
        known: HostArray = np.load(path, mmap_mode="r", allow_pickle=False)
        if known.shape == (len(rows), feature_map.columns):
            return known
    features = feature_map.apply(rows)
    with suppress(OSError, ValueError):
        # write elsewhere and rename, so that `path` is complete or absent
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent) as temporary:
            part = Path(temporary) / path.name
            np.save(part, features, allow_pickle=False)
            part.replace(path)
        features = np.load(path, mmap_mode="r", allow_pickle=False)
    return features


@dataclass(frozen=True, eq=False)
class LazyRows:
    """A function of each stored row, computed for the rows that are read.

    No second array of all rows is formed, and what is read of a file (`applied`) does not stay in
    memory.
    """

    stored: Float[HostArray, "N K"]
    encode: Callable[[HostArray], HostArray]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows, and of the columns that `encode` returns."""
        return len(self.stored), self.encode(self.stored[:0]).shape[1]

    @property
    def dtype(self) -> Any:
        """The type of a stored cell."""
        return self.stored.dtype

    def __getitem__(self, rows: HostArray) -> HostArray:
        """Return the encoded rows with these indices."""
        some = self.encode(self.stored[rows])
        _unload(self.stored)
        return some


def _unload(rows: HostArray) -> None:
    """Remove from memory what was read of a file; any other array stays as it is."""
    held: Any = rows
    while isinstance(held, np.ndarray):
        held = held.base
    if isinstance(held, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        held.madvise(mmap.MADV_DONTNEED)
