"""Features of published data sets are kept on disk; those of an owner's records never are."""

import dataclasses

import numpy as np
import pytest

from taciturn.datasets import load
from taciturn.features import Inputs, applied
from taciturn.features.fourier import Fourier
from taciturn.features.scattering import Scattering
from taciturn.kernel.records import Draw
from taciturn.training import divide

INPUTS = Inputs(("a", "b", "c"), 1.0, numbers=(0, 1, 2))
ROWS = np.random.default_rng(0).uniform(-0.5, 0.5, (7, 3))


def map_of(seed=0):
    return Fourier(INPUTS, 4, seed)


def test_what_is_read_is_what_was_computed(tmp_path):
    wanted = map_of().apply(ROWS)
    for _ in range(2):
        np.testing.assert_array_equal(applied(map_of(), ROWS, folder=tmp_path), wanted)
    assert len(list(tmp_path.iterdir())) == 1


def test_other_rows_and_other_settings_have_files_of_their_own(tmp_path):
    first = applied(map_of(), ROWS, folder=tmp_path)
    others = (
        applied(map_of(), ROWS + 0.01, folder=tmp_path),
        applied(map_of(1), ROWS, folder=tmp_path),
    )
    assert all(not np.array_equal(first, other) for other in others)
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("content", [b"", b"no array", np.zeros(3).tobytes()])
def test_a_file_that_is_no_array_of_features_is_computed_anew(tmp_path, content):
    applied(map_of(), ROWS, folder=tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(content)
    np.testing.assert_array_equal(applied(map_of(), ROWS, folder=tmp_path), map_of().apply(ROWS))


def test_a_folder_that_cannot_be_written_keeps_nothing_and_stops_nobody(tmp_path):
    (tmp_path / "file").write_text("in the way")
    there = tmp_path / "file" / "features"
    np.testing.assert_array_equal(applied(map_of(), ROWS, folder=there), map_of().apply(ROWS))


@pytest.mark.parametrize("public", [True, False])
def test_only_pictures_of_a_published_data_set_are_kept(public, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "taciturn.features.feature_map.pooch.os_cache", lambda name: tmp_path / name
    )
    few = dataclasses.replace(load("digits"), public=public)
    few = dataclasses.replace(
        few, features=few.features[:60], targets=few.targets[:60], train_rows=50
    )
    divided = divide(few, 2, split_seed=0, draw=Draw(seed=0), features="scattering")
    assert isinstance(divided.features, Scattering)
    assert len(list(tmp_path.rglob("*.npy"))) == public
    again = divide(few, 2, split_seed=0, draw=Draw(seed=0), features="scattering")
    np.testing.assert_array_equal(divided.parts.train_features, again.parts.train_features)
