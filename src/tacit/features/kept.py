"""Features of published data sets, kept on disk: of an owner's records nothing is ever kept."""

from __future__ import annotations

import hashlib
import inspect
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pooch
from jaxtyping import Float

from tacit.features.feature_map import FeatureMap
from tacit.typing import HostArray


def applied(
    feature_map: FeatureMap, rows: Float[HostArray, "N D"], *, folder: Path | None = None
) -> Float[HostArray, "N K"]:
    """Return the features of the records of a published data set, read from disk if they are there.

    A file is named by a digest of the rows, of the map with its settings and of the code that
    computes it, and found again under no other. Where the folder cannot be written, features are
    computed every time.

    Parameters
    ----------
    rows
        Published records, and no others: their features are written to disk.
    folder
        None for `features` in the user's cache folder.

    Notes
    -----
    **Guarantee.** What is read is clipped to the record norm when it is packed, as what is computed
    is; a file that somebody changed costs accuracy.
    """
    place = Path(pooch.os_cache("tacit")) / "features" if folder is None else folder
    path = place / f"{_digest(feature_map, rows)}.npy"
    known = _read(path, (len(rows), feature_map.columns))
    if known is not None:
        return known
    features = feature_map.apply(rows)
    _keep(features, path)
    return features


def _digest(feature_map: FeatureMap, rows: HostArray) -> str:
    code = inspect.getsource(inspect.getmodule(type(feature_map)))  # type: ignore[arg-type]
    content = hashlib.sha256(f"{feature_map!r}{rows.shape}{rows.dtype}{code}".encode())
    content.update(np.ascontiguousarray(rows).view(np.uint8).data)
    return content.hexdigest()


def _read(path: Path, shape: tuple[int, int]) -> HostArray | None:
    try:
        features: HostArray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return features if features.shape == shape else None


def _keep(features: HostArray, path: Path) -> None:
    """Write under a passing name and rename, so that `path` is whole or absent."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent) as passing:
            part = Path(passing) / path.name
            np.save(part, features, allow_pickle=False)
            os.replace(part, path)
    except OSError:
        return
