"""UCI Adult: does a person earn more than 50,000 dollars a year? Bundled with the package."""

from __future__ import annotations

import lzma
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from taciturn.datasets.dataset import Dataset
from taciturn.datasets.fetch import digest
from taciturn.errors import DataError
from taciturn.typing import HostArray

BUNDLED = (
    ("adult.data.xz", "9bfd73145abdbef9d374f061aadb263b10947b41a86f0c762846fdf9402bb732"),
    ("adult.test.xz", "59bf02a50c4b80815f8dc9e924f8c6cdcd837b353c98682261a2cd37e0d070b9"),
)


class Numeric(NamedTuple):
    """A number, divided by the published `largest` value."""

    name: str
    largest: float


class Categorical(NamedTuple):
    """One of `levels`, encoded one-hot."""

    name: str
    levels: tuple[str, ...]


# Public ranges and category lists, in the order of the file: constants, so that the features of a
# record depend on that record alone. The lists are those of the published description, without
# `Never-worked`, which occurs only on records whose occupation is missing; those are dropped. The
# largest values are the maxima over the complete records of both files: 16 is the code of the
# highest education; 90, 99999 and 99 appear to be top-codes; those of fnlwgt and capital-loss are
# the observed maxima.
_TABLE = """\
age 90
workclass Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay
fnlwgt 1490400
education Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th \
Masters 1st-4th 10th Doctorate 5th-6th Preschool
education-num 16
marital-status Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent \
Married-AF-spouse
occupation Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty \
Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv \
Protective-serv Armed-Forces
relationship Wife Own-child Husband Not-in-family Other-relative Unmarried
race White Asian-Pac-Islander Amer-Indian-Eskimo Other Black
sex Female Male
capital-gain 99999
capital-loss 4356
hours-per-week 99
native-country United-States Cambodia England Puerto-Rico Canada Germany \
Outlying-US(Guam-USVI-etc) India Japan Greece South China Cuba Iran Honduras Philippines Italy \
Poland Jamaica Vietnam Mexico Portugal Ireland France Dominican-Republic Laos Ecuador Taiwan Haiti \
Columbia Hungary Guatemala Nicaragua Scotland Thailand Yugoslavia El-Salvador Trinadad&Tobago Peru \
Hong Holand-Netherlands
"""


def _column(name: str, *values: str) -> Numeric | Categorical:
    return Categorical(name, values) if len(values) > 1 else Numeric(name, float(values[0]))


COLUMNS = tuple(_column(*line.split()) for line in _TABLE.splitlines())


def feature_names() -> tuple[str, ...]:
    """Return the 104 names: that of the column, or `column=level` for each level of a category."""
    names: list[str] = []
    for column in COLUMNS:
        if isinstance(column, Numeric):
            names.append(column.name)
        else:
            names.extend(f"{column.name}={level}" for level in column.levels)
    return tuple(names)


def adult() -> Dataset:
    """Return the 45,222 complete records of Adult as 104 columns, labels +1 for `>50K`, else -1.

    Prepared as by Huang et al. (2019): records with a missing value (`?`) are dropped, the eight
    categories become 98 one-hot columns, and the six numbers (fnlwgt included) are divided by their
    largest published value. A training part has 40,000 records.
    """
    rows = [row for name, sha256 in BUNDLED for row in _complete(bundled_text(name, sha256))]
    return Dataset(
        name="adult",
        title="UCI Adult: income above 50,000 dollars a year (1994 census)",
        features=_encode(rows),
        targets=np.array([1.0 if row[-1].startswith(">50K") else -1.0 for row in rows]),
        task="binary",
        classes=2,
        feature_names=feature_names(),
        train_rows=40_000,
        public=True,
        licence="CC BY 4.0",
        source="Becker and Kohavi (1996), UCI Machine Learning Repository, doi 10.24432/C5XW20",
        conditions=(
            "column ranges and category lists are taken from the UCI data set as published: they "
            "are constants, but the range of fnlwgt and of capital-loss is its largest record's",
            "the number of complete records is public; records with a missing value were dropped",
        ),
        numbers=tuple(place for place, name in enumerate(feature_names()) if "=" not in name),
        interval="unit",
    )


def bundled_text(name: str, sha256: str) -> str:
    """Return the text of a bundled xz file after checking its digest, else raise `DataError`."""
    try:
        packed = resources.files("taciturn.datasets").joinpath("bundled", name).read_bytes()
    except OSError as error:
        raise DataError(
            f"bundled file {name} cannot be read ({type(error).__name__}); reinstall taciturn"
        ) from error
    actual = digest(packed)
    if actual != sha256:
        raise DataError(
            f"bundled file {name} is damaged: sha256 {actual[:12]}, expected {sha256[:12]}; "
            "reinstall taciturn"
        )
    return lzma.decompress(packed).decode("ascii")


def _complete(text: str) -> Iterator[list[str]]:
    """Yield the fields of every record without a missing value."""
    for line in text.splitlines():
        # the test file opens with a comment line and both end with an empty one
        if line and not line.startswith("|") and "?" not in line:
            yield line.split(", ")


def _encode(rows: Sequence[Sequence[str]]) -> Float[HostArray, "N 104"]:
    features = np.zeros((len(rows), len(feature_names())))
    start = 0
    # strict=False: the label is the one field beyond the columns
    for column, values in zip(COLUMNS, zip(*rows, strict=True), strict=False):
        if isinstance(column, Numeric):
            features[:, start] = np.array([*map(float, values)]) / column.largest
            start += 1
        else:
            places = {level: start + place for place, level in enumerate(column.levels)}
            features[np.arange(len(rows)), [places[value] for value in values]] = 1.0
            start += len(column.levels)
    return features
