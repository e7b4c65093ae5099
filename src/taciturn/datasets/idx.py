"""MNIST and Fashion-MNIST: 70,000 grey images of 28 x 28 pixels in ten classes, as IDX files."""

from __future__ import annotations

import gzip
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from taciturn.datasets.dataset import Dataset
from taciturn.datasets.fetch import RemoteFile, contents
from taciturn.typing import HostArray


class Images(NamedTuple):
    """The four files of an image set: pixels and labels for training, then for testing."""

    train_images: RemoteFile
    train_labels: RemoteFile
    test_images: RemoteFile
    test_labels: RemoteFile


def _files(folder: str, base: str, digests: tuple[str, str, str, str]) -> Images:
    names = (
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
        "t10k-images-idx3-ubyte.gz",
        "t10k-labels-idx1-ubyte.gz",
    )
    pairs = zip(names, digests, strict=True)
    return Images(*(RemoteFile(folder, name, base + name, sha256) for name, sha256 in pairs))


MNIST = _files(
    "mnist",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    (
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
)
# the publisher's repository: his storage site has no https
FASHION_MNIST = _files(
    "fashion_mnist",
    "https://github.com/zalandoresearch/fashion-mnist/raw/"
    "b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion/",
    (
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
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


def parse(raw: bytes) -> UInt8[HostArray, "..."]:
    """Return the array in an uncompressed IDX file of unsigned bytes.

    The header is two zero bytes, the type (8: unsigned byte), the number of axes, then each
    length as a big-endian 32-bit integer.

    Examples
    --------
    >>> parse(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]))
    array([7, 9], dtype=uint8)
    """
    axes = raw[3]
    shape = np.frombuffer(raw, dtype=">u4", count=axes, offset=4)
    return np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape)


def _images(files: Images, *, title: str, licence: str, source: str) -> Dataset:
    train, train_labels, test, test_labels = (
        parse(gzip.decompress(contents(file))) for file in files
    )
    pixels = np.concatenate([train.reshape(len(train), -1), test.reshape(len(test), -1)])
    return Dataset(
        name=files.train_images.folder,
        title=title,
        features=pixels / 255.0,
        targets=np.concatenate([train_labels, test_labels]).astype(np.int64),
        task="multiclass",
        classes=10,
        feature_names=tuple(f"pixel_{i}_{j}" for i in range(28) for j in range(28)),
        train_rows=len(train),
        fixed_test=True,
        public=True,
        licence=licence,
        source=source,
        record_norm=1.0,
        conditions=(
            "the pixel range 0 to 255 is that of the file format",
            "the number of images and the ten classes are public",
        ),
        numbers=tuple(range(pixels.shape[1])),
        interval="unit",
        picture=(28, 28, 1),
    )
