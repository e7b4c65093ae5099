"""Two small sets that come with scikit-learn, read from its files without importing it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from jaxtyping import Float

from tacit.datasets.dataset import Dataset
from tacit.errors import DataError
from tacit.typing import HostArray

_MEASURES = (
    *("radius", "texture", "perimeter", "area", "smoothness"),
    *("compactness", "concavity", "concave points", "symmetry", "fractal dimension"),
)


def breast_cancer() -> Dataset:
    r"""Return the 569 records of Breast Cancer Wisconsin, 30 columns, +1 benign, -1 malignant.

    Column d is scaled to :math:`(x_d - a_d) / (b_d - a_d)` in [0, 1], where a_d and b_d are its
    smallest and largest value in the set as published. Those bounds are computed from the
    records: they are *taken as* public, see `conditions`.

    Examples
    --------
    >>> breast_cancer().features.shape
    (569, 30)
    """
    table = _table("breast_cancer.csv", shape=(569, 31), header=1)
    x = table[:, :-1]
    low, high = x.min(axis=0), x.max(axis=0)
    return Dataset(
        name="breast_cancer",
        title="Breast Cancer Wisconsin (diagnostic)",
        features=(x - low) / (high - low),
        targets=2.0 * table[:, -1] - 1.0,
        task="binary",
        classes=2,
        feature_names=(
            *(f"mean {measure}" for measure in _MEASURES),
            *(f"{measure} error" for measure in _MEASURES),
            *(f"worst {measure}" for measure in _MEASURES),
        ),
        train_rows=455,
        fixed_test=False,
        public=True,
        licence="CC BY 4.0",
        source="Wolberg et al. (1993), UCI, doi 10.24432/C5DW2B, as shipped with scikit-learn",
        record_norm=1.0,
        conditions=(
            "each column's smallest and largest value are computed from the records of the "
            "published data set and taken as public",
            "the number of records is public",
        ),
        numbers=tuple(range(x.shape[1])),
        interval="unit",
    )


def digits() -> Dataset:
    """Return the 1,797 handwritten digits of 8 x 8 pixels, divided by 16, in ten classes.

    Examples
    --------
    >>> digits().features.shape
    (1797, 64)
    """
    table = _table("digits.csv.gz", shape=(1797, 65), header=0)
    return Dataset(
        name="digits",
        title="Optical recognition of handwritten digits",
        features=table[:, :-1] / 16.0,
        targets=table[:, -1].astype(np.int64),
        task="multiclass",
        classes=10,
        feature_names=tuple(f"pixel_{i}_{j}" for i in range(8) for j in range(8)),
        train_rows=1437,
        fixed_test=False,
        public=True,
        licence="CC BY 4.0",
        source="Alpaydin and Kaynak (1998), UCI, doi 10.24432/C50P49, as shipped with scikit-learn",
        record_norm=1.0,
        conditions=(
            "the pixel range 0 to 16 is that of the published description",
            "the number of images and the ten classes are public",
        ),
        numbers=tuple(range(64)),
        interval="unit",
        picture=(8, 8, 1),
    )


def _table(name: str, *, shape: tuple[int, int], header: int) -> Float[HostArray, "N C"]:
    # the package is located, not imported: importing it costs more than a second
    spec = find_spec("sklearn")
    if spec is None or not spec.submodule_search_locations:
        raise DataError("scikit-learn is not installed and carries this data set; install it")
    path = Path(spec.submodule_search_locations[0]) / "datasets" / "data" / name
    advice = "reinstall scikit-learn 1.5 or later"
    try:
        table = np.loadtxt(path, delimiter=",", skiprows=header)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read ({type(error).__name__}); {advice}") from error
    if table.shape != shape:
        raise DataError(f"{path} holds {table.shape} numbers; {shape} are needed; {advice}")
    return table
