"""The sets that come with scikit-learn, image sets, splits, the registry."""

import gzip
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sklearn.datasets

from taciturn.datasets import Dataset, load, names, pictures, split, tabular
from taciturn.datasets.dataset import centred
from taciturn.datasets.fetch import located
from taciturn.errors import DataError, InputError


def test_breast_cancer_agrees_with_scikit_learn_after_scaling() -> None:
    ours, theirs = load("breast_cancer"), sklearn.datasets.load_breast_cancer()
    x = theirs.data
    expected = (2 * x - x.min(axis=0) - x.max(axis=0)) / np.ptp(x, axis=0)
    np.testing.assert_allclose(ours.features, expected, rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(ours.targets, np.where(theirs.target == 1, 1.0, -1.0))
    assert list(ours.feature_names) == list(theirs.feature_names)
    assert theirs.target_names[1] == "benign"


def test_digits_agree_with_scikit_learn_after_scaling() -> None:
    ours, theirs = load("digits"), sklearn.datasets.load_digits()
    np.testing.assert_array_equal(8 * (ours.features + 1), theirs.data)
    np.testing.assert_array_equal(ours.targets, theirs.target)
    assert ours.classes == 10
    assert len(ours.feature_names) == len(theirs.feature_names)


@pytest.mark.parametrize("name", ["adult", "breast_cancer", "digits"])
def test_numbers_lie_between_minus_1_and_1_or_0_and_1_and_the_conditions_say_which(
    name: str,
) -> None:
    middle, unit = load(name), load(name, interval="unit")
    numbers = list(unit.numbers)
    other = np.setdiff1d(np.arange(unit.features.shape[1]), numbers)
    assert (middle.interval, unit.interval) == ("symmetric", "unit")
    assert unit.features.min() == 0
    assert unit.features.max() == 1
    np.testing.assert_array_equal(middle.features[:, numbers], 2 * unit.features[:, numbers] - 1)
    np.testing.assert_array_equal(middle.features[:, other], unit.features[:, other])
    assert set(middle.conditions) - set(unit.conditions) == {
        "the range of each number is mapped to [-1, 1]"
    }
    assert middle.record_norm == unit.record_norm


@pytest.mark.unchecked
def test_a_data_set_without_numbers_is_not_moved_and_an_unknown_interval_is_refused() -> None:
    data = toy()
    assert centred(data) is data
    untyped: Any = load
    with pytest.raises(InputError, match="interval is 'wide'; choose from symmetric, unit"):
        untyped("digits", interval="wide")


def test_a_missing_or_foreign_scikit_learn_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tabular, "find_spec", lambda name: None)
    with pytest.raises(DataError, match="not installed"):
        load("digits")
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(tabular, "find_spec", lambda name: spec)
    with pytest.raises(DataError, match=r"cannot be read.*reinstall"):
        load("digits")
    folder = tmp_path / "datasets" / "data"
    folder.mkdir(parents=True)
    (folder / "breast_cancer.csv").write_text("2,2,a,b\n1,2,0\n3,4,1\n")
    with pytest.raises(DataError, match=r"holds \(2, 3\).*\(569, 31\)"):
        load("breast_cancer")
    (folder / "digits.csv.gz").write_bytes(gzip.compress(b"1,2\n" * 99)[:-9])
    with pytest.raises(DataError, match="cannot be read"):
        load("digits")


def test_importing_and_loading_small_sets_imports_neither_scikit_learn_nor_pandas() -> None:
    code = (
        "import sys, taciturn.datasets as d; d.load('digits'); d.load('adult'); "
        "print(sorted({'sklearn', 'pandas', 'requests'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_idx_file_written_by_hand_is_read_back() -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    header = bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    np.testing.assert_array_equal(pictures.parse_idx(header + array.tobytes()), array)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "histogram", "mean"),
    [
        # label counts of the training part; mean and deviation as every tutorial quotes them
        (
            pictures.MNIST,
            (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
            (0.1307, 0.3081),
        ),
        (pictures.FASHION_MNIST, (6000,) * 10, (0.2860, 0.3530)),
    ],
)
def test_image_sets_have_the_published_shapes_and_labels(
    files: pictures.Images, histogram: tuple[int, ...], mean: tuple[float, float]
) -> None:
    if any(located(file) is None for file in files):
        pytest.skip("files neither under TACITURN_DATA_DIR nor in the cache")
    dataset = load(files.train_images.folder, interval="unit")
    assert dataset.features.shape == (70_000, 784)
    assert dataset.fixed_test
    assert dataset.train_rows == 60_000
    np.testing.assert_array_equal(np.bincount(dataset.targets[:60_000]), histogram)
    train = dataset.features[:60_000]
    assert train.min() == 0.0
    assert train.max() == 1.0
    np.testing.assert_allclose((train.mean(), train.std()), mean, atol=5e-5)


def test_a_truncated_image_file_is_refused_by_the_loader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = pictures.MNIST.train_images
    path = tmp_path / file.folder / file.name
    path.parent.mkdir()
    path.write_bytes(gzip.compress(b"cut short"))
    monkeypatch.setenv("TACITURN_DATA_DIR", str(tmp_path))
    with pytest.raises(DataError, match=f"{file.name} is not the original.*{file.sha256[:12]}"):
        load("mnist")


def toy(**changes: Any) -> Dataset:
    facts: dict[str, Any] = {
        "name": "toy",
        "title": "toy",
        "features": np.arange(20.0).reshape(10, 2),
        "targets": np.arange(10.0),
        "task": "regression",
        "classes": None,
        "feature_names": ("a", "b"),
        "train_rows": 7,
        "fixed_test": False,
        "public": True,
        "licence": "none",
        "source": "here",
        "record_norm": 1.0,
        "conditions": (),
    }
    return Dataset(**(facts | changes))


def test_a_split_uses_every_record_once_and_keeps_rows_with_their_targets() -> None:
    for fixed in (False, True):
        parts = split(toy(fixed_test=fixed), seed=3)
        assert parts.train_features.shape == (7, 2)
        targets = np.concatenate([parts.train_targets, parts.test_targets])
        features = np.concatenate([parts.train_features, parts.test_features])
        np.testing.assert_array_equal(np.sort(targets), np.arange(10.0))
        np.testing.assert_array_equal(features[:, 0], 2 * targets)


def test_a_random_split_follows_the_seed_and_a_fixed_test_set_does_not() -> None:
    again, same, other = (split(toy(), seed=seed).train_targets for seed in (1, 1, 2))
    np.testing.assert_array_equal(again, same)
    assert not np.array_equal(again, other)
    np.testing.assert_array_equal(again, np.random.default_rng(1).permutation(10)[:7])
    one, two = (split(toy(fixed_test=True), seed=seed) for seed in (1, 2))
    np.testing.assert_array_equal(one.test_targets, [7, 8, 9])
    np.testing.assert_array_equal(two.test_targets, [7, 8, 9])
    assert not np.array_equal(one.train_targets, two.train_targets)
    with pytest.raises(InputError, match="seed"):
        split(toy(), seed=-1)


def test_a_data_set_cannot_be_changed() -> None:
    dataset = toy()
    with pytest.raises(ValueError, match="read-only"):
        dataset.features[0, 0] = 1.0
    with pytest.raises(FrozenInstanceError):
        dataset.train_rows = 1  # type: ignore[misc]
    own = np.zeros((10, 2))
    toy(features=own)
    own[0, 0] = 1.0


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"features": np.zeros((9, 2))}, "float64"),
        ({"features": np.zeros((10, 2), np.float32)}, "float32"),
        ({"features": np.full((10, 2), np.nan)}, "not finite"),
        ({"targets": np.full(10, np.inf)}, "not finite"),
        ({"feature_names": ("a",)}, "1 feature names for 2"),
        ({"train_rows": 11}, "no more to train on"),
        ({"train_rows": 0}, "train_rows"),
        ({"record_norm": float("nan")}, "record_norm"),
        ({"classes": 2}, "classes None"),
        ({"task": "binary", "classes": 2}, r"targets \+-1"),
        ({"task": "binary", "targets": np.ones(10)}, "classes 2"),
        ({"task": "multiclass", "classes": 10}, "integer"),
        ({"task": "multiclass", "classes": 9, "targets": np.arange(10)}, "classes - 1"),
        ({"task": "multiclass", "targets": np.arange(10)}, "integer"),
    ],
)
@pytest.mark.unchecked
def test_facts_that_contradict_one_another_are_refused(changes: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError, match=part):
        toy(**changes)


def test_an_unknown_name_is_answered_with_a_suggestion_and_the_list() -> None:
    with pytest.raises(InputError, match=r"'mnist_fashion'.*there are: ") as caught:
        load("mnist_fashion")
    assert all(name in str(caught.value) for name in names())
    with pytest.raises(InputError, match="did you mean 'adult'"):
        load("Adult")
    with pytest.raises(InputError, match="called 'zzz'; there are"):
        load("zzz")
