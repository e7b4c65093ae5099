"""Using a model on new rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.special import expit, softmax

from taciturn.errors import InputError
from taciturn.models.model import Model
from taciturn.problems import is_second
from taciturn.tables import INTERCEPT, Bounds, Numeric, encode, zeros_and_units
from taciturn.typing import HostArray


def predict(
    model: Model,
    frame: pd.DataFrame,
    *,
    keep: Sequence[str] = (),
    ignore_extra: bool = False,
    probabilities: bool | None = None,
) -> pd.DataFrame:
    """Return one row per row of `frame`: the prediction, and probabilities where there are any.

    The table needs the columns that the model was trained on; the target column and those
    that were ignored in training may be there and are not read. Numbers are clipped to the public
    ranges, as in training, and so is the prediction of a regression to the range of its target.
    Where scores are log-odds (`taciturn.problems.ClippedLoss.log_odds`) there is a column
    `probability of LABEL` per label.

    Parameters
    ----------
    keep
        Columns of `frame` that stand before the prediction; the model need not know them.
    ignore_extra
        Whether other columns that the model does not know are passed over.
    probabilities
        True for a model that must have them, False to leave them out.

    Raises
    ------
    InputError
        If a column is missing or unknown, a cell is empty, not a number or not in the public list,
        the model is that of a bundled data set, a score overflows, probabilities are asked for and
        there are none, or a column that is kept is called as one that is added.

    Notes
    -----
    **Guarantee.** The model is a function of noised answers, so predictions reveal nothing more of
    the training records than it does. The rows of `frame` are not protected.
    """
    kept = {name: _kept(frame, name) for name in keep}
    scores = _scores(model, _known(model, frame, keep, ignore_extra=ignore_extra))
    added: dict[str, object] = {}
    if model.labels is None:
        added["prediction"] = _inside(scores[:, 0], model)
    else:
        single = model.outputs == 1
        chosen = is_second(scores[:, 0]).astype(int) if single else scores.argmax(axis=1)
        added["prediction"] = np.array(model.labels, object)[chosen]
    if probabilities is not False:
        odds = _probabilities(model, scores)
        if probabilities and not odds:
            why = model.clipped_loss.without_probabilities("--clip ")
            raise InputError(f"{why}; or leave --proba out")
        for label, values in zip(model.labels or (), odds, strict=False):
            added[f"probability of {label}"] = values
    both = sorted(set(kept) & set(added))
    if both:
        raise InputError(
            f"the column {both[0]!r} that is kept is also one of the result; rename it"
        )
    return pd.DataFrame({**kept, **added})


def _kept(frame: pd.DataFrame, name: str) -> HostArray:
    if name not in frame.columns:
        raise InputError(f"the table has no column {name!r} to keep; name one that it has")
    return frame[name].to_numpy()


def _known(
    model: Model, frame: pd.DataFrame, keep: Sequence[str], *, ignore_extra: bool
) -> pd.DataFrame:
    """Return the table without the columns that the model need not know."""
    if model.bounds is None:
        return frame
    bounds = model.bounds
    known = {bounds.target_name, *bounds.columns, *bounds.ignored}
    spare = set(frame.columns) if ignore_extra else set(keep)
    return frame.drop(columns=list(spare - known))


def _inside(scores: Float[HostArray, "N"], model: Model) -> Float[HostArray, "N"]:
    """Return scores clipped to the range that is declared for the target."""
    target = None if model.bounds is None else model.bounds.target
    if not isinstance(target, Numeric):
        return scores
    inside: HostArray = np.clip(scores, target.minimum, target.maximum)
    return inside


def _scores(model: Model, frame: pd.DataFrame) -> Float[HostArray, "N K"]:
    if model.bounds is None:
        raise InputError(
            f"this model belongs to the bundled data set {model.data}, whose columns are prepared "
            "by its loader; predict works with models of your own tables"
        )
    rows = encode(frame, model.bounds, with_target=False).features
    coefficients = np.array([term.coefficient for term in (*model.terms[1:], model.terms[0])])
    with np.errstate(over="ignore", invalid="ignore"):
        scores: HostArray = _addends(rows, model) @ coefficients
    if not np.isfinite(scores).all():
        raise InputError(
            "a prediction is not a finite number; this model is of no use, train again"
        )
    return scores


def _addends(rows: HostArray, model: Model) -> HostArray:
    """Return what the coefficients multiply: columns in their units or features, and a 1."""
    assert model.bounds is not None
    features = model.feature_map
    if features is None:
        return _in_units(rows, model.bounds)
    kept = [place for place, name in enumerate(features.names) if name != INTERCEPT]
    return np.concatenate([features.apply(rows)[:, kept], np.ones((len(rows), 1))], axis=1)


def _in_units(rows: HostArray, bounds: Bounds) -> HostArray:
    """Return encoded rows in the user's units again, zeros and ones without centre and weight."""
    zeros, units = zeros_and_units(bounds)
    natural: HostArray = rows * units + zeros
    return natural


def _probabilities(model: Model, scores: HostArray) -> list[HostArray]:
    if not model.clipped_loss.log_odds:
        return []
    if model.outputs == 1:
        return [expit(-scores[:, 0]), expit(scores[:, 0])]
    return list(softmax(scores, axis=1).T)
