"""CIFAR-10's cats and dogs: the format, an archive made here, and the real records."""

import dataclasses
import io
import lzma
import tarfile

import numpy as np
import pytest

from conftest import published
from taciturn.datasets import FACTS, load, pictures, registry
from taciturn.datasets.fetch import RemoteFile, digest
from taciturn.errors import DataError

LABELS = [(3, 9, 5), (0, 3), (5,), (8, 8), (3, 5)]


def record(label, value):
    return bytes([label]) + bytes([value]) * pictures.CIFAR_VALUES


def archive():
    """Five batches in the publisher's folder; the value of a record is its place."""
    buffer, place = io.BytesIO(), 0
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for number, labels in enumerate(LABELS, start=1):
            content = b"".join(record(label, place + k) for k, label in enumerate(labels))
            place += len(labels)
            info = tarfile.TarInfo(f"cifar-10-batches-bin/data_batch_{number}.bin")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A folder with a small archive, and the pins that belong to it."""
    monkeypatch.setenv("TACITURN_DATA_DIR", str(tmp_path))
    wanted = b"".join(
        record(label, place)
        for place, label in enumerate(sum(LABELS, ()))
        if label in {pictures.CAT, pictures.DOG}
    )
    packed = lzma.compress(wanted, filters=[{"id": lzma.FILTER_DELTA, "dist": 3},
                                            {"id": lzma.FILTER_LZMA2}])  # fmt: skip
    (tmp_path / "cifar10").mkdir()
    for name, file, content in (("ARCHIVE", "a.tar.gz", archive()), ("EXTRACT", "e.xz", packed)):
        pinned = RemoteFile("cifar10", file, "https://example.org", digest(content))
        monkeypatch.setattr(pictures, f"CIFAR_{name}", pinned)
        (tmp_path / "cifar10" / file).write_bytes(content)
    monkeypatch.setattr(pictures, "PETS_SHA256", digest(wanted))
    monkeypatch.setattr(pictures, "CIFAR_TRAIN_ROWS", 4)
    small = dataclasses.replace(FACTS["cifar10"], train_rows=4)
    monkeypatch.setattr(registry, "_DATA_SETS", {"cifar10": (pictures.cifar10, small)})
    return tmp_path / "cifar10"


def test_archive_and_extract_hold_the_same_cats_and_dogs_in_their_order(made):
    one = load("cifar10", interval="unit")
    (made / "e.xz").unlink()
    other = load("cifar10", interval="unit")
    np.testing.assert_array_equal(one.features[:, 0] * 255, [0, 2, 4, 5, 8, 9])
    np.testing.assert_array_equal(one.targets, [-1, 1, -1, 1, -1, 1])
    np.testing.assert_array_equal(one.features, other.features)
    np.testing.assert_array_equal(one.targets, other.targets)


def test_other_records_than_the_pinned_ones_are_refused(made, monkeypatch):
    monkeypatch.setattr(pictures, "PETS_SHA256", digest(record(3, 1)))
    with pytest.raises(DataError, match="not the published ones"):
        load("cifar10")
    with pytest.raises(DataError, match="whole records"):
        pictures.parse_cifar(record(3, 0)[:-1])


@pytest.mark.slow
def test_the_published_records_are_ten_thousand_in_two_equal_classes():
    data = published("cifar10", interval="unit")
    assert data.features.shape == (10_000, 3_072)
    assert np.sum(data.targets) == 0
    assert data.features.min() == 0
    assert data.features.max() == 1
    assert data.train_rows == 8_000
