"""Columns of the Adult data set: public ranges and category lists, in the order of the file.

These are constants, so building the features looks at one record at a time and at nothing else.
The category lists are those of the published description, less `Never-worked`: it is published
only on records whose occupation is missing, and those are dropped. The largest values are the
maxima over the published complete records of both files: 16 is the code of the highest education;
90, 99999 and 99 look like top-codes; those of fnlwgt and capital-loss are simply the largest that
occur.
"""

from __future__ import annotations

from typing import NamedTuple


class Numeric(NamedTuple):
    """A number, divided by the published `largest` value."""

    name: str
    largest: float


class Categorical(NamedTuple):
    """One of `levels`, coded as as many columns with a single one among them."""

    name: str
    levels: tuple[str, ...]


def _levels(text: str) -> tuple[str, ...]:
    return tuple(text.split())


COLUMNS: tuple[Numeric | Categorical, ...] = (
    Numeric("age", 90.0),
    Categorical(
        "workclass",
        _levels(
            "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay"
        ),
    ),
    Numeric("fnlwgt", 1490400.0),
    Categorical(
        "education",
        _levels(
            "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th "
            "Masters 1st-4th 10th Doctorate 5th-6th Preschool"
        ),
    ),
    Numeric("education-num", 16.0),
    Categorical(
        "marital-status",
        _levels(
            "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
            "Married-AF-spouse"
        ),
    ),
    Categorical(
        "occupation",
        _levels(
            "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty "
            "Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving "
            "Priv-house-serv Protective-serv Armed-Forces"
        ),
    ),
    Categorical(
        "relationship",
        _levels("Wife Own-child Husband Not-in-family Other-relative Unmarried"),
    ),
    Categorical("race", _levels("White Asian-Pac-Islander Amer-Indian-Eskimo Other Black")),
    Categorical("sex", _levels("Female Male")),
    Numeric("capital-gain", 99999.0),
    Numeric("capital-loss", 4356.0),
    Numeric("hours-per-week", 99.0),
    Categorical(
        "native-country",
        _levels(
            "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) "
            "India Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica "
            "Vietnam Mexico Portugal Ireland France Dominican-Republic Laos Ecuador Taiwan Haiti "
            "Columbia Hungary Guatemala Nicaragua Scotland Thailand Yugoslavia El-Salvador "
            "Trinadad&Tobago Peru Hong Holand-Netherlands"
        ),
    ),
)


def feature_names() -> tuple[str, ...]:
    """Return the 104 names: the column's own, or `column=level` for each level of a category."""
    names: list[str] = []
    for column in COLUMNS:
        if isinstance(column, Numeric):
            names.append(column.name)
        else:
            names.extend(f"{column.name}={level}" for level in column.levels)
    return tuple(names)
