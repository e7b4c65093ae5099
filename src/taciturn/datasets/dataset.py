"""A data set with its public facts, its train/test split, and records dealt to agents."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

from taciturn import checks
from taciturn.errors import InputError
from taciturn.kernel.records import Draw, Parts, Shards, origin_of, pack, random_partition
from taciturn.typing import HostArray, Interval, Precision, Task


class RecordFacts(NamedTuple):
    """The public facts of records.

    - `counts`: The number of records of each agent.
    - `features`: D, the number of entries of a row.
    - `record_norm`: R, the norm to which every row is clipped.
    - `dealt`: Whether records without owners were dealt to agents at random.
    """

    counts: tuple[int, ...]
    features: int
    record_norm: float
    dealt: bool


@dataclass(frozen=True, eq=False, repr=False)
class Owners:
    """Training records, divided among agents, and test records of no agent.

    - `features`, `targets`: Training records, (N, D) and (N,).
    - `parts`: The training rows of each agent.
    - `record_norm`: The norm to which packing clips every row.
    - `test_features`, `test_targets`: (K, D) and (K,); K may be 0. No certificate covers metrics on
      them.
    - `conditions`: Facts assumed public, under which a certificate holds.
    """

    features: Float[HostArray, "N D"]
    targets: Num[HostArray, "N"]
    parts: Parts
    record_norm: float
    test_features: Float[HostArray, "K D"]
    test_targets: Num[HostArray, "K"]
    conditions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        widths = {np.shape(rows)[1:] for rows in (self.features, self.test_features)}
        if len(widths) != 1:
            raise InputError(
                f"training and test rows have the shapes {self.features.shape} and "
                f"{self.test_features.shape}; give both the same columns"
            )

    def __repr__(self) -> str:
        facts = self.facts
        return (
            f"{sum(facts.counts):,} records of {len(facts.counts)} agents, {facts.features} "
            f"features, record norm {facts.record_norm:g}; {len(self.test_targets):,} test records"
        )

    @property
    def facts(self) -> RecordFacts:
        """The public facts."""
        counts = tuple(len(part) for part in self.parts)
        dealt = origin_of(self.parts).dealt
        return RecordFacts(counts, self.features.shape[1], self.record_norm, dealt)

    def shards(self, precision: Precision) -> Shards:
        """Return the records of every agent, each row clipped to the record norm."""
        return pack(
            self.features,
            self.targets,
            self.parts,
            record_norm=self.record_norm,
            precision=precision,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    r"""Records :math:`(x_n, y_n)_{n=1}^N` with the facts about them that are assumed public.

    Arrays are read-only. Features are float64, scaled but *not* clipped to `record_norm`. Targets
    are float64 -1 or +1 (binary), int64 0 to `classes` - 1 (multiclass), or float64 (regression).
    Raises `InputError` if fields contradict one another, or a number is not finite.
    """

    name: str  # the key in the registry
    title: str
    features: Float[HostArray, "N D"]
    targets: Num[HostArray, "N"]
    task: Task
    classes: int | None  # 2 for binary, None for regression
    feature_names: tuple[str, ...]
    train_rows: int  # number of training records of a split
    public: bool  # whether the records are published, so that un-noised metrics may be shown
    licence: str
    source: str
    conditions: tuple[str, ...]  # facts assumed public, under which a certificate holds
    record_norm: float = 1.0  # enforced by packing; the rows here may exceed it
    fixed_test: bool = False  # whether the rows from `train_rows` on are the publisher's test set
    owners: tuple[Int[HostArray, "_m"], ...] | None = None  # the training rows of each agent
    # the columns with a public range, and its image: "unit", [0, 1], as set by the loaders, or
    # "symmetric", [-1, 1]
    numbers: tuple[int, ...] = ()
    interval: Interval | None = None
    picture: tuple[int, int, int] | None = None  # height, width and channels of a record
    labels: tuple[str, ...] | None = None  # of the classes, if not their numbers
    # (s, b): an encoded number y is s y + b in the target's units
    target_scale: tuple[float, float] = (1.0, 0.0)
    # no data set identifies persons or has records without a target
    persons: ClassVar[None] = None
    absent: ClassVar[None] = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, as in a `Table`."""
        return self.feature_names

    @property
    def draws_test(self) -> bool:
        """Whether test records are drawn in secret, because the split is not published.

        With a public seed, replacing one record of a sorted file could move others between the
        parts.
        """
        return self.owners is None and not (self.public or self.fixed_test)

    def deal(self, agents: int | None = None, *, seed: int | None = None) -> Owners:
        """Return training records dealt to agents by a secret draw, and the test records.

        `agents` is None for records that have owners. A `seed` makes the draw public, for a
        reproduction. It also splits published data into training and test part; the default is 0.
        """
        if (agents is None) == (self.owners is None):
            found = "have no owners" if self.owners is None else f"have {len(self.owners)} owners"
            advice = "give agents" if self.owners is None else "leave agents out"
            raise InputError(f"the records of {self.name} {found}; {advice}")
        draw = Draw.given(None, seed)
        train, test = divided(self, seed or 0, draw)
        if self.owners is not None:
            parts = Parts(self.owners, origin_of(self.owners))
        else:
            assert agents is not None
            parts = random_partition(len(train), agents, draw=draw)
        if self.draws_test and not draw.is_secret:
            parts = Parts(parts, replace(origin_of(parts), reproducible=True))
        return Owners(
            self.features[train],
            self.targets[train],
            parts,
            self.record_norm,
            self.features[test],
            self.targets[test],
            self.conditions,
        )

    def __post_init__(self) -> None:
        checks.positive("record_norm", self.record_norm)
        checks.at_least("train_rows", self.train_rows, 1)
        wrong = self._wrong()
        if wrong:
            raise InputError(f"{self.name}: {wrong}")
        for name in ("features", "targets"):
            view = getattr(self, name).view()  # the caller's array stays writeable
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def _wrong(self) -> str | None:
        """Return the first contradiction between the fields, or None."""
        x, y, classes = self.features, self.targets, self.classes
        if x.ndim != 2 or x.dtype != np.float64 or y.shape != x.shape[:1]:
            return (
                f"features are {x.dtype} {x.shape} and targets {y.shape}; "
                "they must be float64 (N, D) and (N,)"
            )
        names, cut = len(self.feature_names), self.train_rows
        if names != x.shape[1]:
            return f"{names} feature names for {x.shape[1]} columns; give one per column"
        if not cut <= len(y):
            return f"train_rows is {cut} of {len(y)} records; there are no more to train on"
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            return "a feature or target is not finite; remove such records"
        need, good = {
            "regression": ("classes None", classes is None),
            "binary": ("classes 2, targets +-1", classes == 2 and np.isin(y, (-1.0, 1.0)).all()),
            "multiclass": (
                "integer targets from 0 to classes - 1",
                classes is not None
                and np.issubdtype(y.dtype, np.integer)
                and np.isin(y, np.arange(classes)).all(),
            ),
        }[self.task]
        return None if good else f"classes is {classes}; task {self.task} needs {need}"


def centred(dataset: Dataset) -> Dataset:
    """Return the data set with numbers in [0, 1], if any, mapped to [-1, 1] by 2 u - 1."""
    if dataset.interval != "unit":
        return dataset
    features, moved = dataset.features.copy(), list(dataset.numbers)
    features[:, moved] = 2 * features[:, moved] - 1
    conditions = (*dataset.conditions, "the range of each number is mapped to [-1, 1]")
    return replace(dataset, features=features, interval="symmetric", conditions=conditions)


class Split(NamedTuple):
    """Training and test part: features (N, D) and targets (N,) of each."""

    train_features: Float[HostArray, "N D"]
    train_targets: Num[HostArray, "N"]
    test_features: Float[HostArray, "K D"]
    test_targets: Num[HostArray, "K"]


def divided(
    dataset: Dataset, seed: int, draw: Draw
) -> tuple[Int[HostArray, " N"], Int[HostArray, " K"] | slice]:
    """Return the places of the training records in a data set, in their order, and of the test's.

    Records that have owners are already divided. Published data are split by the public seed.

    **Guarantee.** The draw selects the test records of private data (`Dataset.draws_test`); the
    seed does so only in a reproduction.
    """
    cut = dataset.train_rows
    if dataset.owners is not None:
        return np.arange(cut), slice(cut, None)
    if not dataset.draws_test or not draw.is_secret:
        return _split_places(dataset, seed)
    order = draw.permutation(len(dataset.targets), "test")
    return order[:cut], order[cut:]


def split(dataset: Dataset, *, seed: int) -> Split:
    r"""Divide a data set into `train_rows` training records and the remaining test records.

    With :math:`\pi` the permutation drawn by ``np.random.default_rng(seed)``, the training part is
    :math:`\pi(1..n)` and the test part :math:`\pi(n+1..N)`, where n is `train_rows`. A test set
    fixed by the publisher is the last N - n rows; the seed then shuffles the training rows only.
    """
    x, y, (train, test) = dataset.features, dataset.targets, _split_places(dataset, seed)
    return Split(x[train], y[train], x[test], y[test])


def _split_places(
    dataset: Dataset, seed: int
) -> tuple[Int[HostArray, " N"], Int[HostArray, " K"] | slice]:
    generator = np.random.default_rng(checks.at_least("seed", seed, 0))
    cut = dataset.train_rows
    if dataset.fixed_test:
        return generator.permutation(cut), slice(cut, None)
    order = generator.permutation(len(dataset.targets))
    return order[:cut], order[cut:]
