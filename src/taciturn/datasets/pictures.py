"""Data sets of pictures: MNIST, Fashion-MNIST, cats and dogs of CIFAR-10, FEMNIST by writer."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import re
import tarfile
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int, UInt8

from taciturn.datasets.dataset import Dataset
from taciturn.datasets.fetch import DATA_DIR, RemoteFile, contents, digest, located
from taciturn.errors import DataError
from taciturn.typing import HostArray


def pixel_names(side: int, *channels: str) -> tuple[str, ...]:
    """Return the names of a square picture's columns, channel by channel, row by row."""
    names = channels or ("pixel",)
    return tuple(f"{name}_{i}_{j}" for name in names for i in range(side) for j in range(side))


class Images(NamedTuple):
    """The four files of an image set: pixels and labels for training, then for testing."""

    train_images: RemoteFile
    train_labels: RemoteFile
    test_images: RemoteFile
    test_labels: RemoteFile


def _files(folder: str, base: str, *digests: str) -> Images:
    names = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k")
             for kind in ("images-idx3", "labels-idx1")]  # fmt: skip
    pairs = zip(names, digests, strict=True)
    return Images(*(RemoteFile(folder, name, base + name, sha256) for name, sha256 in pairs))


MNIST = _files(
    "mnist",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
)
# the publisher's repository: his storage site has no https
FASHION_MNIST = _files(
    "fashion_mnist",
    "https://github.com/zalandoresearch/fashion-mnist/raw/"
    "b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion/",
    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
)


def mnist() -> Dataset:
    """Return MNIST: 60,000 training and 10,000 fixed test digits, 784 pixels divided by 255."""
    return _images(
        MNIST,
        title="MNIST: handwritten digits",
        licence="CC BY-SA 3.0 as commonly stated; the files name none",
        source="LeCun, Cortes and Burges, The MNIST database of handwritten digits",
    )


def fashion_mnist() -> Dataset:
    """Return Fashion-MNIST: 60,000 training and 10,000 fixed test images, 784 pixels over 255."""
    return _images(
        FASHION_MNIST,
        title="Fashion-MNIST: articles of clothing",
        licence="MIT",
        source="Xiao, Rasul and Vollgraf (2017), arXiv 1708.07747",
    )


def parse_idx(raw: bytes) -> UInt8[HostArray, "..."]:
    """Return the array in an uncompressed IDX file of unsigned bytes.

    Its header: two zero bytes, the type 8, the number of axes, each length as a big-endian uint32.
    """
    axes = raw[3]
    shape = np.frombuffer(raw, dtype=">u4", count=axes, offset=4)
    return np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape)


def _images(files: Images, *, title: str, licence: str, source: str) -> Dataset:
    train, train_labels, test, test_labels = (
        parse_idx(gzip.decompress(contents(file))) for file in files
    )
    pixels = np.concatenate([train.reshape(len(train), -1), test.reshape(len(test), -1)])
    return Dataset(
        name=files.train_images.folder,
        title=title,
        features=pixels / 255.0,
        targets=np.concatenate([train_labels, test_labels]).astype(np.int64),
        task="multiclass",
        classes=10,
        feature_names=pixel_names(28),
        train_rows=len(train),
        fixed_test=True,
        public=True,
        licence=licence,
        source=source,
        conditions=(
            "the pixel range 0 to 255 is that of the file format",
            "the number of images and the ten classes are public",
        ),
        numbers=tuple(range(pixels.shape[1])),
        interval="unit",
        picture=(28, 28, 1),
    )


CAT, DOG = 3, 5
CIFAR_VALUES = 3 * 32 * 32
CIFAR_TRAIN_ROWS = 8_000
_CIFAR = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
CIFAR_ARCHIVE = RemoteFile(
    "cifar10",
    "cifar-10-binary.tar.gz",
    _CIFAR,
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)
# the cats and dogs of the training batches alone, in their order: an eighth of the archive
CIFAR_EXTRACT = RemoteFile(
    "cifar10",
    "cat_dog_train.bin.xz",
    _CIFAR,
    "95b1bff8050d3fd3c42db22905784ade1055ca1e42476514c9ffe68cdb5e1481",
)
PETS_SHA256 = "fffcc58db4ba6df8cd399397c2ae7dc8a8d96d7854fa4c9941489e1649abd8fb"


def cifar10() -> Dataset:
    """Return 10,000 cats (-1) and dogs (1) of CIFAR-10, 3,072 values divided by 255.

    They are the records of the training batches; a split keeps 2,000 of them for testing, and the
    publisher's test batch is not used. They are read from the publisher's archive, or from an
    extract of it (`CIFAR_EXTRACT`, under TACITURN_DATA_DIR), which must hold the same bytes.
    """
    if located(CIFAR_EXTRACT):
        raw = lzma.decompress(contents(CIFAR_EXTRACT))
    else:
        raw = pets(_unpacked(contents(CIFAR_ARCHIVE)))
    if digest(raw) != PETS_SHA256:
        raise DataError(
            "the cats and dogs found in the CIFAR-10 file are not the published ones; delete it "
            f"from the folder {CIFAR_ARCHIVE.folder}, so that it is downloaded again"
        )
    records = parse_cifar(raw)
    return Dataset(
        name="cifar10",
        title="CIFAR-10: cats and dogs",
        features=records[:, 1:] / 255.0,
        targets=np.where(records[:, 0] == CAT, -1.0, 1.0),
        task="binary",
        classes=2,
        feature_names=pixel_names(32, "red", "green", "blue"),
        train_rows=CIFAR_TRAIN_ROWS,
        public=True,
        licence="none is named by the publisher",
        source="Krizhevsky (2009), Learning multiple layers of features from tiny images",
        conditions=(
            "the value range 0 to 255 is that of the file format",
            "the number of images of each class is public",
            "the test part is held out from the publisher's training batches",
        ),
        numbers=tuple(range(CIFAR_VALUES)),
        interval="unit",
        picture=(32, 32, 3),
    )


def parse_cifar(raw: bytes) -> UInt8[HostArray, "N 3073"]:
    """Return the records of CIFAR's binary format: a label, then 1,024 values of each colour."""
    if not raw or len(raw) % (CIFAR_VALUES + 1):
        raise DataError(
            f"{len(raw)} bytes are not whole records of CIFAR-10; each has {CIFAR_VALUES + 1}"
        )
    return np.frombuffer(raw, np.uint8).reshape(-1, CIFAR_VALUES + 1)


def pets(raw: bytes) -> bytes:
    """Return the records of `raw` that are cats or dogs, in their order."""
    records = parse_cifar(raw)
    return records[np.isin(records[:, 0], (CAT, DOG))].tobytes()


def _unpacked(archive: bytes) -> bytes:
    """Return the five training batches of the archive, one after the other."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        batches = {Path(member.name).name: member for member in tar.getmembers()}
        files = [tar.extractfile(batches[f"data_batch_{k}.bin"]) for k in range(1, 6)]
        return b"".join(file.read() for file in files if file is not None)


PIXELS, CLASSES, WRITERS = 784, 62, 195
Writer: TypeAlias = tuple[Float[HostArray, "m 784"], Int[HostArray, " m"]]


def femnist() -> Dataset:
    """Return FEMNIST "small": 62 classes of characters, 28 x 28 pixels of ink, by writer.

    The files give the paper as 1 and the ink as 0; here ink is 1 - x. Training records belong to
    their writers (`Dataset.owners`); the test part holds the test records of every writer found,
    whether or not the training shard is there too.
    """
    folder = Path(os.environ.get(DATA_DIR, "")).expanduser() / "femnist"
    if not os.environ.get(DATA_DIR) or not all((folder / p).is_dir() for p in ("train", "test")):
        raise DataError(
            f"FEMNIST is not here; build it with LEAF (github.com/TalwalkarLab/leaf, data/femnist: "
            f"./preprocess.sh -s niid --sf 0.05 -k 0 -t sample), put its train and test folders at "
            f"<dir>/femnist/train and <dir>/femnist/test, and set {DATA_DIR} to <dir>"
        )
    train, test = (_writers(folder / part) for part in ("train", "test"))
    ink, labels = zip(*train, *test, strict=True)
    borders = np.cumsum([len(labels) for _, labels in train])
    return Dataset(
        name="femnist",
        title=f"FEMNIST (LEAF, 5 %): characters by writer, {len(train)} of {WRITERS} writers",
        features=np.concatenate(ink),
        targets=np.concatenate(labels),
        task="multiclass",
        classes=CLASSES,
        feature_names=pixel_names(28),
        train_rows=int(borders[-1]),
        fixed_test=True,
        public=True,
        licence="that of LEAF (BSD 2-Clause) and NIST SD 19 (public)",
        source="Caldas et al. (2018), LEAF: a benchmark for federated settings, arXiv 1812.01097",
        conditions=(
            "the pixel range 0 to 1 is that of the file format",
            "the writers, the number of characters of each and the 62 classes are public",
            f"training shards of {len(train)} of the {WRITERS} writers were at hand",
        ),
        owners=tuple(np.split(np.arange(borders[-1]), borders[:-1])),
        numbers=tuple(range(PIXELS)),
        interval="unit",
        picture=(28, 28, 1),
    )


def _writers(folder: Path) -> list[Writer]:
    """Return the writers of all shards of a folder, .json or .json.xz, in the order of numbers.

    Of each writer the pixels of ink in [0, 1], `(m, 784)`, and the m classes.
    """
    paths = sorted(
        (path for path in folder.iterdir() if path.name.endswith((".json", ".json.xz"))),
        key=lambda path: [int(number) for number in re.findall(r"\d+", path.name)],
    )
    names: list[str] = []
    writers: list[Writer] = []
    for path in paths:
        try:
            raw = path.read_bytes()
            content = json.loads(lzma.decompress(raw) if path.suffix == ".xz" else raw)
            names += content["users"]
            writers += [_writer(name, content["user_data"][name]) for name in content["users"]]
        except (OSError, ValueError, TypeError, KeyError, lzma.LZMAError) as error:
            raise DataError(
                f"{path} is not a shard of LEAF's FEMNIST ({type(error).__name__}: {error}); "
                "build it again"
            ) from error
    if not writers or len(set(names)) != len(names):
        raise DataError(f"{folder} holds no shards of LEAF, or a writer twice; build it again")
    return writers


def _writer(name: str, data: dict[str, Any]) -> Writer:
    paper, labels = np.asarray(data["x"], np.float64), np.asarray(data["y"])
    if paper.shape != (len(labels), PIXELS) or not len(labels):
        raise ValueError(f"{name} has pixels of shape {paper.shape} for {len(labels)} labels")
    if not (np.issubdtype(labels.dtype, np.integer) and np.all((labels >= 0) & (labels < CLASSES))):
        raise ValueError(f"{name} has a label that is not a whole number below {CLASSES}")
    if not np.all((paper >= 0) & (paper <= 1)):
        raise ValueError(f"{name} has a pixel outside [0, 1]")
    return 1 - paper, labels.astype(np.int64)
