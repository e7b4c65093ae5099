"""Using a model on new rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.special import expit, softmax

from tacit.errors import InputError
from tacit.models.model import Model
from tacit.tables import Bounds, Numeric, encode
from tacit.typing import HostArray


def predict(model: Model, frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per row of `frame`: the prediction, and probabilities where there are any.

    The table needs the columns that the model was trained on; the target column and those
    that were ignored in training may be there and are not read. Numbers are clipped to the public
    ranges, as in training. Logistic losses give a column `probability of LABEL` per label.

    Raises
    ------
    InputError
        If a column is missing or unknown, a cell is empty, not a number or not in the public list,
        the model is that of a bundled data set, or a score overflows.

    Notes
    -----
    **Guarantee.** The model is a function of noised answers, so predictions reveal nothing more of
    the training records than it does. The rows of `frame` are not protected.
    """
    scores = _scores(model, frame)
    if model.labels is None:
        return pd.DataFrame({"prediction": scores[:, 0]})
    chosen = (scores[:, 0] >= 0).astype(int) if model.outputs == 1 else scores.argmax(axis=1)
    columns: dict[str, object] = {"prediction": np.array(model.labels, object)[chosen]}
    for label, values in zip(model.labels, _probabilities(model, scores), strict=False):
        columns[f"probability of {label}"] = values
    return pd.DataFrame(columns)


def _scores(model: Model, frame: pd.DataFrame) -> Float[HostArray, "N K"]:
    if model.bounds is None:
        raise InputError(
            f"this model belongs to the bundled data set {model.data}, whose columns are prepared "
            "by its loader; predict works with models of your own tables"
        )
    rows = encode(frame, model.bounds, with_target=False).features
    coefficients = np.array([term.coefficient for term in (*model.terms[1:], model.terms[0])])
    with np.errstate(over="ignore", invalid="ignore"):
        scores: HostArray = _in_units(rows, model.bounds) @ coefficients
    if not np.isfinite(scores).all():
        raise InputError(
            "a prediction is not a finite number; this model is of no use, train again"
        )
    return scores


def _in_units(rows: HostArray, bounds: Bounds) -> HostArray:
    """Return encoded rows with their numeric columns in the user's units again."""
    scale, offset = np.ones(rows.shape[1]), np.zeros(rows.shape[1])
    start = 0
    for fact in bounds.columns.values():
        if isinstance(fact, Numeric):
            scale[start], offset[start] = fact.width, fact.minimum
            start += 1
        else:
            start += len(fact.values)
    units: HostArray = rows * scale + offset
    return units


def _probabilities(model: Model, scores: HostArray) -> list[HostArray]:
    if model.loss == "logistic":
        return [expit(-scores[:, 0]), expit(scores[:, 0])]
    if model.loss == "multinomial":
        return list(softmax(scores, axis=1).T)
    return []
