"""The cats and dogs of CIFAR-10: colour images of 32 x 32 pixels, two of its ten classes."""

from __future__ import annotations

import io
import lzma
import tarfile
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from taciturn.datasets.dataset import Dataset
from taciturn.datasets.fetch import RemoteFile, contents, digest, located
from taciturn.errors import DataError
from taciturn.typing import HostArray

CAT, DOG = 3, 5
PIXELS = 3 * 32 * 32
TRAIN_ROWS = 8_000
_ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
ARCHIVE = RemoteFile(
    "cifar10",
    "cifar-10-binary.tar.gz",
    _ADDRESS,
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)
# the cats and dogs of the training batches alone, in their order: an eighth of the archive
EXTRACT = RemoteFile(
    "cifar10",
    "cat_dog_train.bin.xz",
    _ADDRESS,
    "95b1bff8050d3fd3c42db22905784ade1055ca1e42476514c9ffe68cdb5e1481",
)
RECORDS_SHA256 = "fffcc58db4ba6df8cd399397c2ae7dc8a8d96d7854fa4c9941489e1649abd8fb"


def cifar10() -> Dataset:
    """Return 10,000 cats (-1) and dogs (1) of CIFAR-10, 3,072 values divided by 255.

    They are the records of the training batches; a split keeps 2,000 of them for testing, and the
    publisher's test batch is not used. They are read from the publisher's archive, or from an
    extract of it (`EXTRACT`, under TACITURN_DATA_DIR), which must hold the same bytes.
    """
    if located(EXTRACT):
        raw = lzma.decompress(contents(EXTRACT))
    else:
        raw = pets(_unpacked(contents(ARCHIVE)))
    if digest(raw) != RECORDS_SHA256:
        raise DataError(
            "the cats and dogs found in the CIFAR-10 file are not the published ones; delete it "
            f"from the folder {ARCHIVE.folder}, so that it is downloaded again"
        )
    records = parse(raw)
    return Dataset(
        name="cifar10",
        title="CIFAR-10: cats and dogs",
        features=records[:, 1:] / 255.0,
        targets=np.where(records[:, 0] == CAT, -1.0, 1.0),
        task="binary",
        classes=2,
        feature_names=tuple(
            f"{colour}_{i}_{j}"
            for colour in ("red", "green", "blue")
            for i in range(32)
            for j in range(32)
        ),
        train_rows=TRAIN_ROWS,
        fixed_test=False,
        public=True,
        licence="none is named by the publisher",
        source="Krizhevsky (2009), Learning multiple layers of features from tiny images",
        record_norm=1.0,
        conditions=(
            "the value range 0 to 255 is that of the file format",
            "the number of images of each class is public",
            "the test part is held out from the publisher's training batches",
        ),
        numbers=tuple(range(PIXELS)),
        interval="unit",
        picture=(32, 32, 3),
    )


def parse(raw: bytes) -> UInt8[HostArray, "N 3073"]:
    """Return the records of CIFAR's binary format: a label, then 1,024 values of each colour.

    Raises
    ------
    DataError
        If the length is not that of whole records, or there are none.

    Examples
    --------
    >>> parse(bytes([5]) + bytes(3072)).shape
    (1, 3073)
    """
    if not raw or len(raw) % (PIXELS + 1):
        raise DataError(
            f"{len(raw)} bytes are not whole records of CIFAR-10; each has {PIXELS + 1}"
        )
    return np.frombuffer(raw, np.uint8).reshape(-1, PIXELS + 1)


def pets(raw: bytes) -> bytes:
    """Return the records of `raw` that are cats or dogs, in their order."""
    records = parse(raw)
    return records[np.isin(records[:, 0], (CAT, DOG))].tobytes()


def _unpacked(archive: bytes) -> bytes:
    """Return the five training batches of the archive, one after the other."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        batches = {Path(member.name).name: member for member in tar.getmembers()}
        files = [tar.extractfile(batches[f"data_batch_{k}.bin"]) for k in range(1, 6)]
        return b"".join(file.read() for file in files if file is not None)
