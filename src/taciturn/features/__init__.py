"""Public feature maps, from encoded records to the rows that agents hold, and their names.

Their names on the command line are `scattering`, `fourier:500`, `bins:10`, `hats:10`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from taciturn.errors import InputError
from taciturn.features.around import CONSTANT, CentredRows
from taciturn.features.bins import Bins, Hats, set_bins
from taciturn.features.cells import ALL_RECORDS, Axis, Block, Cells, Grid, even_grid, with_grid
from taciturn.features.feature_map import MISSING, FeatureMap, Inputs, LazyRows, Variable, applied
from taciturn.features.formula import ALL, Formula, Response
from taciturn.features.fourier import Fourier
from taciturn.features.scattering import Scattering

__all__ = [
    "ALL", "ALL_RECORDS", "CELLS", "COLUMNS", "CONSTANT", "FEATURES", "FORMULA", "HATS", "MISSING",
    "Axis", "Block", "Cells", "CentredRows", "FeatureMap", "Formula", "Grid", "Inputs", "LazyRows",
    "Response", "Variable", "applied", "even_grid", "feature_map_named", "set_bins", "usage",
    "with_grid",
]  # fmt: skip

CELLS = "cells:"  # followed by the tables that are counted (`Cells`)
FORMULA = "formula:"  # followed by a formula, with a left side for a survival time
COLUMNS, HATS = "columns", "hats:10"  # no map; the default of tables where it is likely to pay

# name: what its number counts (None if it has none), and the map
FEATURES: Mapping[str, tuple[str | None, Callable[..., FeatureMap]]] = MappingProxyType(
    {
        "hats": ("nodes", Hats),
        "bins": ("bins", Bins),
        "fourier": ("features", Fourier),
        "scattering": (None, Scattering),
    }
)


def feature_map_named(text: str, inputs: Inputs) -> FeatureMap:
    """Return the feature map with that name, for records with these public facts."""
    if text.startswith(FORMULA):
        return Formula(inputs, text.removeprefix(FORMULA))
    if text.startswith(CELLS):
        return Cells(inputs, text.removeprefix(CELLS))
    name, colon, number = text.partition(":")
    if name not in FEATURES:
        raise InputError(f"there is no feature map {name!r}; choose from {usage()}")
    counted, build = FEATURES[name]
    whole = number.isdecimal() and number.isascii() and len(number) < 10
    if (counted is None) == bool(colon) or (colon and not whole):
        raise InputError(f"the features {text!r} are not understood; choose from {usage()}")
    return build(inputs, int(number)) if colon else build(inputs)


def usage() -> str:
    """Return the names of the maps for help texts: 'hats:N, bins:N, fourier:N, scattering'."""
    shown = [name if counted is None else f"{name}:N" for name, (counted, _) in FEATURES.items()]
    return ", ".join(shown)
