"""FEMNIST by writer: a fabricated folder, and the real one where it is."""

import json
import lzma
import os
from pathlib import Path

import numpy as np
import pytest

from taciturn.datasets import load
from taciturn.errors import DataError, InputError
from taciturn.training import divide

REAL = os.environ.get("TACITURN_DATA_DIR", "")


def shard(folder, number, people, *, packed=True):
    """Write what LEAF writes; `people` maps a writer to a list of (pixel value, label)."""
    users = {
        name: {"x": [[value] * 784 for value, _ in rows], "y": [label for _, label in rows]}
        for name, rows in people.items()
    }
    content = {"users": list(people), "num_samples": [len(v) for v in people.values()]}
    raw = json.dumps({**content, "user_data": users}).encode()
    name = f"all_data_{number}_niid_05_keep_0_{folder.name}_9.json"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name + ".xz" if packed else name)
    path.write_bytes(lzma.compress(raw) if packed else raw)


@pytest.fixture
def made(tmp_path, monkeypatch):
    root = tmp_path / "femnist"
    shard(root / "train", 10, {"c": [(0.25, 5)] * 3})
    shard(root / "train", 2, {"a": [(1.0, 0), (0.5, 61)], "b": [(0.0, 7)]}, packed=False)
    shard(root / "test", 0, {"a": [(0.75, 1)], "z": [(1.0, 2)]})
    monkeypatch.setenv("TACITURN_DATA_DIR", str(tmp_path))
    return root


def test_writers_own_their_records_in_the_order_of_the_files(made):
    data = load("femnist", interval="unit")
    assert [part.tolist() for part in data.owners] == [[0, 1], [2], [3, 4, 5]]
    assert data.targets.tolist() == [0, 61, 7, 5, 5, 5, 1, 2]
    assert data.features[:, 0].tolist() == [0.0, 0.5, 1.0, 0.75, 0.75, 0.75, 0.25, 0.0]  # ink
    assert (data.train_rows, data.classes) == (6, 62)
    assert "3 of 195 writers" in data.title


def test_the_agents_are_the_writers_and_their_shards_are_ragged(made):
    data = load("femnist", interval="unit")
    divided = divide(data, None, split_seed=5)
    shards = divided.shards("float32")
    assert divided.counts == (2, 1, 3)
    assert shards.counts == (2, 1, 3)
    assert np.asarray(shards.stacked.mask).tolist() == [[1, 1, 0], [1, 0, 0], [1, 1, 1]]
    assert np.asarray(shards.stacked.targets).tolist() == [[0, 61, 0], [7, 0, 0], [5, 5, 5]]
    norms = np.linalg.norm(np.asarray(shards.stacked.features), axis=-1)
    assert norms.max() <= 1.0
    with pytest.raises(InputError, match="belong to 3 agents already"):
        divide(data, 10, split_seed=5)


def test_a_missing_folder_says_how_to_get_it(tmp_path, monkeypatch):
    for value in ("", str(tmp_path)):
        monkeypatch.setenv("TACITURN_DATA_DIR", value)
        with pytest.raises(DataError, match=r"(?s)LEAF.*preprocess.*TACITURN_DATA_DIR"):
            load("femnist")


@pytest.mark.parametrize(
    "people", [{"b": [(2.0, 1)]}, {"b": [(0.5, 62)]}, {"b": [(0.5, 1.5)]}, {"b": []}]
)
def test_what_leaf_would_not_write_is_refused(made, people):
    shard(made / "train", 11, people)
    with pytest.raises(DataError, match="is not a shard of LEAF"):
        load("femnist")


def test_a_writer_in_two_shards_is_refused(made):
    shard(made / "train", 11, {"a": [(0.5, 1)]})
    with pytest.raises(DataError, match="a writer twice"):
        load("femnist")


def test_a_file_that_is_not_json_is_refused(made):
    (made / "train" / "all_data_3.json").write_text("{")
    with pytest.raises(DataError, match=r"all_data_3\.json"):
        load("femnist")


@pytest.mark.slow
@pytest.mark.skipif(
    not (REAL and (Path(REAL) / "femnist" / "train").is_dir()), reason="the files are not here"
)
def test_the_files_at_hand_are_114_writers_with_3_to_164_records():
    data = load("femnist", interval="unit")
    counts = [len(part) for part in data.owners]
    assert (len(counts), min(counts), max(counts)) == (114, 3, 164)
    assert (data.train_rows, len(data.targets)) == (15_440, 15_440 + 4_167)
    assert np.mean(data.features) < 0.3  # ink on paper, not paper
