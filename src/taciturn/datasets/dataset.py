"""One data set with the public facts that planning needs, and its division into two parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

from taciturn import checks
from taciturn.datasets.owners import Owners
from taciturn.errors import InputError
from taciturn.kernel.records import Draw, Parts, origin_of, random_partition
from taciturn.typing import HostArray, Interval, Task


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    r"""Records :math:`(x_n, y_n)_{n=1}^N` with what is taken as publicly known of them.

    Arrays are read-only. Features are float64, scaled but *not* clipped to `record_norm`. Targets
    are float64, -1 or +1, int64, 0 to `classes` - 1, or float64, by the task. Shapes, labels and
    counts that contradict one another, and numbers that are not finite, raise `InputError`.
    """

    name: str  # the key in the registry
    title: str  # a line for people
    features: Float[HostArray, "N D"]
    targets: Num[HostArray, "N"]
    task: Task
    classes: int | None  # 2 for binary, None for regression
    feature_names: tuple[str, ...]
    train_rows: int  # how many records the training part of a split takes
    public: bool  # whether the records are published: un-noised metrics on them may be shown
    licence: str
    source: str
    conditions: tuple[str, ...]  # facts taken as public; a certificate holds under these
    record_norm: float = 1.0  # that packing enforces on every row; the rows here may exceed it
    fixed_test: bool = False  # whether the rows from `train_rows` on are the publisher's test set
    owners: tuple[Int[HostArray, "_m"], ...] | None = None  # the training rows of each, if known
    # the columns whose public range is mapped to an interval, and which: "unit", [0, 1], as loaders
    # return them, or "symmetric", [-1, 1]
    numbers: tuple[int, ...] = ()
    interval: Interval | None = None
    picture: tuple[int, int, int] | None = None  # height, width and channels of a record
    labels: tuple[str, ...] | None = None  # of the classes, if they have other names than numbers
    # s and b with which an encoded number y stands for s y + b in the target's units
    target_scale: tuple[float, float] = (1.0, 0.0)
    persons: ClassVar[None] = None  # no data set says which person a record is about

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, as of a `Table`."""
        return self.feature_names

    @property
    def draws_test(self) -> bool:
        """Whether test records are drawn in secret: nobody published which are trained on.

        By a public seed on row numbers, one replaced record could move others from one part to the
        other.
        """
        return self.owners is None and not (self.public or self.fixed_test)

    def deal(self, agents: int | None = None, *, seed: int | None = None) -> Owners:
        """Return training records dealt to so many agents by a secret draw, and the test records.

        `agents` is None for records that have owners. Published data are split by the public seed
        0. With a `seed` it is the public draw of a reproduction, whose certificate says so.
        """
        if (agents is None) == (self.owners is None):
            found = "have no owners" if self.owners is None else f"have {len(self.owners)} owners"
            advice = "give agents" if self.owners is None else "leave agents out"
            raise InputError(f"the records of {self.name} {found}; {advice}")
        draw = Draw.given(None, seed)
        part = divided(self, self.features, seed or 0, draw)
        if self.owners is not None:
            parts = Parts(self.owners, origin_of(self.owners))
        else:
            assert agents is not None
            parts = random_partition(len(part.train_targets), agents, draw=draw)
        if self.draws_test and not draw.is_secret:
            parts = Parts(parts, replace(origin_of(parts), reproducible=True))
        return Owners(
            part.train_features,
            part.train_targets,
            parts,
            self.record_norm,
            part.test_features,
            part.test_targets,
            self.conditions,
        )

    def __post_init__(self) -> None:
        checks.positive("record_norm", self.record_norm)
        checks.at_least("train_rows", self.train_rows, 1)
        wrong = self._wrong()
        if wrong:
            raise InputError(f"{self.name}: {wrong}")
        for name in ("features", "targets"):
            view = getattr(self, name).view()  # so that the caller's array keeps its flags
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def _wrong(self) -> str | None:
        """Return what contradicts what, and how to fix it."""
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
    """Return a data set whose numbers lie in [-1, 1] in place of [0, 1]: u becomes 2 u - 1.

    The encoding is a public fact, so the conditions name it. A data set without such numbers is
    returned as it is.
    """
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


def divided(dataset: Dataset, rows: HostArray, seed: int, draw: Draw) -> Split:
    """Return training and test part, `rows` standing for the features of the records.

    Records that have owners are divided already. Published data are split by the public seed.

    **Guarantee.** Which records of private data are for testing alone is up to the draw
    (`Dataset.draws_test`); the seed stands in its place in a reproduction.
    """
    x, y, cut = rows, dataset.targets, dataset.train_rows
    if dataset.owners is None:
        if not dataset.draws_test or not draw.is_secret:
            return split(dataset, seed=seed, rows=x)
        order = draw.permutation(len(y), "test")
        x, y = x[order], y[order]
    return Split(x[:cut], y[:cut], x[cut:], y[cut:])


def split(dataset: Dataset, *, seed: int, rows: HostArray | None = None) -> Split:
    r"""Divide a data set into `train_rows` training records and the remaining test records.

    With :math:`\pi` the permutation drawn by ``np.random.default_rng(seed)``, the training part is
    :math:`\pi(1..n)` and the test part :math:`\pi(n+1..N)`, where n is `train_rows`. If the test
    set is fixed by the publisher it is the last N - n rows in their order, and the seed only
    shuffles the training rows.

    `rows` stand for the features of the records, in their order, if they are given.
    """
    generator = np.random.default_rng(checks.at_least("seed", seed, 0))
    x, y, cut = dataset.features if rows is None else rows, dataset.targets, dataset.train_rows
    if dataset.fixed_test:
        train = generator.permutation(cut)
        return Split(x[train], y[train], x[cut:], y[cut:])
    order = generator.permutation(len(y))
    return Split(x[order[:cut]], y[order[:cut]], x[order[cut:]], y[order[cut:]])
