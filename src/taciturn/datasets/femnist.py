"""FEMNIST of the LEAF benchmark: handwritten characters, each owned by the one who wrote it."""

from __future__ import annotations

import json
import lzma
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from taciturn.datasets.dataset import Dataset
from taciturn.datasets.fetch import DATA_DIR
from taciturn.errors import DataError
from taciturn.typing import HostArray

PIXELS, CLASSES = 784, 62
WRITERS = 195


class Writer(NamedTuple):
    """One person's characters: pixels of ink in [0, 1], and classes."""

    name: str
    ink: Float[HostArray, "m 784"]
    labels: Int[HostArray, " m"]


def femnist() -> Dataset:
    """Return FEMNIST "small": 62 classes of characters, 28 x 28 pixels of ink, by writer.

    The files give the paper as 1 and the ink as 0; here ink is 1 - x. Training records belong to
    their writers (`Dataset.owners`); the test part holds the test records of every writer found,
    whether or not the training shard is there too.

    Raises
    ------
    DataError
        If TACITURN_DATA_DIR names no folder that holds `femnist/train` and `femnist/test`, or a
        file there is not what LEAF writes.
    """
    folder = _folder()
    train, test = (_writers(folder / part) for part in ("train", "test"))
    people = train + test
    counts = [len(person.labels) for person in train]
    borders = np.cumsum(counts)[:-1]
    total = int(np.sum(counts))
    return Dataset(
        name="femnist",
        title=f"FEMNIST (LEAF, 5 %): characters by writer, {len(train)} of {WRITERS} writers",
        features=np.concatenate([person.ink for person in people]),
        targets=np.concatenate([person.labels for person in people]),
        task="multiclass",
        classes=CLASSES,
        feature_names=tuple(f"pixel_{i}_{j}" for i in range(28) for j in range(28)),
        train_rows=total,
        fixed_test=True,
        public=True,
        licence="that of LEAF (BSD 2-Clause) and NIST SD 19 (public)",
        source="Caldas et al. (2018), LEAF: a benchmark for federated settings, arXiv 1812.01097",
        record_norm=1.0,
        conditions=(
            "the pixel range 0 to 1 is that of the file format",
            "the writers, the number of characters of each and the 62 classes are public",
            f"training shards of {len(train)} of the {WRITERS} writers were at hand",
        ),
        owners=tuple(np.split(np.arange(total), borders)),
        numbers=tuple(range(PIXELS)),
        interval="unit",
        picture=(28, 28, 1),
    )


def _folder() -> Path:
    folder = Path(os.environ.get(DATA_DIR, "")).expanduser() / "femnist"
    missing = [part for part in ("train", "test") if not (folder / part).is_dir()]
    if not os.environ.get(DATA_DIR) or missing:
        raise DataError(
            f"FEMNIST is not here; build it with LEAF (github.com/TalwalkarLab/leaf, data/femnist: "
            f"./preprocess.sh -s niid --sf 0.05 -k 0 -t sample), put its train and test folders at "
            f"<dir>/femnist/train and <dir>/femnist/test, and set {DATA_DIR} to <dir>"
        )
    return folder


def _writers(folder: Path) -> list[Writer]:
    """Return the writers of all shards of a folder, .json or .json.xz, in the order of numbers."""
    paths = sorted(
        (path for path in folder.iterdir() if path.name.endswith((".json", ".json.xz"))),
        key=lambda path: [int(number) for number in re.findall(r"\d+", path.name)],
    )
    writers = [writer for path in paths for writer in _shard(path)]
    names = [writer.name for writer in writers]
    if not writers or len(set(names)) != len(names):
        raise DataError(f"{folder} holds no shards of LEAF, or a writer twice; build it again")
    return writers


def _shard(path: Path) -> list[Writer]:
    try:
        raw = path.read_bytes()
        content = json.loads(lzma.decompress(raw) if path.suffix == ".xz" else raw)
        return [_writer(name, content["user_data"][name]) for name in content["users"]]
    except (OSError, ValueError, TypeError, KeyError, lzma.LZMAError) as error:
        raise DataError(
            f"{path} is not a shard of LEAF's FEMNIST ({type(error).__name__}: {error}); build it "
            "again"
        ) from error


def _writer(name: str, data: dict[str, Any]) -> Writer:
    paper, labels = np.asarray(data["x"], np.float64), np.asarray(data["y"])
    if paper.shape != (len(labels), PIXELS) or not len(labels):
        raise ValueError(f"{name} has pixels of shape {paper.shape} for {len(labels)} labels")
    if not (np.issubdtype(labels.dtype, np.integer) and np.all((labels >= 0) & (labels < CLASSES))):
        raise ValueError(f"{name} has a label that is not a whole number below {CLASSES}")
    if not np.all((paper >= 0) & (paper <= 1)):
        raise ValueError(f"{name} has a pixel outside [0, 1]")
    return Writer(name, 1 - paper, labels.astype(np.int64))
