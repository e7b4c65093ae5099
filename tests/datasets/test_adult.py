"""Adult agrees with an independent construction by pandas from the bundled originals."""

import hashlib
import io
import lzma
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from taciturn.datasets import Dataset, load
from taciturn.datasets import adult as module
from taciturn.datasets.adult import BUNDLED, bundled_text
from taciturn.errors import DataError

HEADER = [
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
]  # fmt: skip


def original(name: str) -> bytes:
    packed = resources.files("taciturn.datasets").joinpath("bundled", name + ".xz").read_bytes()
    return lzma.decompress(packed)


@pytest.fixture(scope="module")
def adult() -> Dataset:
    return load("adult", interval="unit")


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    parts = [
        pd.read_csv(
            io.BytesIO(original(name)), names=HEADER, skipinitialspace=True, na_values="?",
            comment="|",
        )
        for name in ("adult.data", "adult.test")
    ]  # fmt: skip
    return pd.concat(parts, ignore_index=True).dropna().reset_index(drop=True)


@pytest.mark.parametrize(
    ("name", "md5"),
    [
        ("adult.data", "5d7c39d7b8804f071cdd1f2a7c460872"),
        ("adult.test", "35238206dfdf7f1fe215bbb874adecdc"),
    ],
)
def test_the_bundled_files_decompress_to_the_published_originals(name: str, md5: str) -> None:
    assert hashlib.md5(original(name)).hexdigest() == md5


def test_the_notice_gives_the_attribution_the_licence_asks_for() -> None:
    text = resources.files("taciturn.datasets").joinpath("bundled", "NOTICE").read_text()
    for part in ("Becker", "Kohavi", "1996", "10.24432/C5XW20", "CC BY 4.0", "unmodified"):
        assert part in text


def test_adult_has_the_published_counts_and_balance(adult: Dataset) -> None:
    assert adult.features.shape == (45_222, 104)
    assert adult.train_rows == 40_000
    assert not adult.fixed_test
    # adult.names: 24.78 % of the records without unknowns earn more
    assert int(np.sum(adult.targets == 1)) == 7508 + 3700
    assert int(np.sum(adult.targets == -1)) == 45_222 - 11_208


def test_every_column_agrees_with_dummies_made_by_pandas(
    adult: Dataset, frame: pd.DataFrame
) -> None:
    dummies = pd.get_dummies(frame.drop(columns="income"), prefix_sep="=").astype(float)
    scaled = dummies / dummies.max()
    assert set(scaled.columns) == set(adult.feature_names)
    expected = scaled[list(adult.feature_names)].to_numpy()
    np.testing.assert_allclose(adult.features, expected, rtol=1e-15, atol=0)
    label = np.where(frame["income"].str.rstrip(".") == ">50K", 1.0, -1.0)
    np.testing.assert_array_equal(adult.targets, label)


def test_a_damaged_or_missing_bundled_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, sha256 = BUNDLED[0]
    with pytest.raises(DataError, match=r"damaged.*reinstall"):
        bundled_text(name, "0" * 64)
    with pytest.raises(DataError, match=r"cannot be read.*reinstall"):
        bundled_text("absent.xz", sha256)
    packed = resources.files("taciturn.datasets").joinpath("bundled", name).read_bytes()
    (tmp_path / "bundled").mkdir()
    (tmp_path / "bundled" / name).write_bytes(packed[:-50])
    monkeypatch.setattr(module.resources, "files", lambda package: tmp_path)
    with pytest.raises(DataError, match=f"{name} is damaged"):
        load("adult")
