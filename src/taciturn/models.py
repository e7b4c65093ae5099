"""A released model in the units of the user's columns: its file and its predictions."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, get_args

import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Float

from taciturn import checks
from taciturn.errors import InputError
from taciturn.features import CentredRows, FeatureMap, feature_map_named
from taciturn.kernel.questions import Squared
from taciturn.problems import (
    ClippedLoss,
    CountLoss,
    CumulativeLogistic,
    Named,
    Survival,
    is_second,
    loss_named,
    weighted,
)
from taciturn.tables import (
    INTERCEPT,
    Bounds,
    Numeric,
    encode,
    encoded_names,
    entries_of,
    inputs_of,
    offsets_and_scales,
    stated_cells,
)
from taciturn.tables.bounds import bounds_from_dict, bounds_to_dict
from taciturn.typing import HostArray, Task


class Term(NamedTuple):
    """One term of the score."""

    column: str | None  # None for the intercept
    value: str | None  # a category or bin, "" for a missing cell; None for the number itself
    # (K,): per unit of the column (of its logarithm on a log scale), or for rows with this value
    coefficient: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Model:
    r"""A linear model with its preprocessing and its certificate.

    With x clipped to its column's range, the score of a row is

    .. math:: z = a + \sum_{j \text{ numeric}} b_j x_j + \sum_{c \text{ category}} b_{c, x_c},

    K numbers for K > 2 classes, else one; x is on the scale of its column (`Numeric.on_scale`). If
    the column has bins, the bin of x adds a term. A missing cell counts as `Numeric.filled`, and
    its indicator adds a term instead of a bin. A regression predicts z; a classifier predicts the
    second of two labels if z >= 0, and of K labels the one with the largest z. With a `CountLoss` z
    is the logarithm of the prediction; of a survival time the prediction is the probability of an
    event until the longest time, and of ordered classes the median.

    Raises `InputError` if fields contradict one another, or a coefficient is not finite.
    """

    # in the order of the file
    taciturn_version: str
    data: str  # name of the data set, or of the table's file
    task: Task
    loss: str  # by name; see `clipped_loss`
    clip: float | None = None  # the bound on a record's coefficient, if known
    class_weights: tuple[float, ...] | None = None  # the public weight of each label in the loss
    target: str
    labels: tuple[str, ...] | None  # in the order of the scores; None for a regression
    terms: tuple[Term, ...]  # intercept first where there is one, then the columns in order
    bounds: Bounds | None  # the preprocessing; None for a bundled data set, prepared by its loader
    # the name of the feature map of encoded rows (`taciturn.features`); terms are then per feature
    features: str | None = None
    centre: tuple[float, ...] | None = None  # the released centre of the rows
    certificate: dict[str, Any]  # `taciturn.certificates.stated` of the run, or read from a file
    statement: tuple[str, ...]  # the certificate in sentences
    assessment: dict[str, Any] | None = None  # `taciturn.training.Assessment` of test records
    private_score: dict[str, Any] | None = None  # `training.evaluation.PrivateScore`: held-out rows

    @property
    def feature_map(self) -> FeatureMap | None:
        """The feature map of a table's rows; None if terms are per column."""
        if self.bounds is None:
            return None
        inputs = inputs_of(self.bounds)
        named = None if self.features is None else feature_map_named(self.features, inputs)
        return named if self.centre is None else CentredRows(inputs, named, np.array(self.centre))

    def __post_init__(self) -> None:
        if (self.labels is None) != (self.task == "regression"):
            raise InputError("a classifier needs labels, and a regression has none; train again")
        if self.labels is not None and (self.task == "binary") != (len(self.labels) == 2):
            raise InputError(f"a {self.task} model cannot have {len(self.labels)} labels")
        if any(len(term.coefficient) != self.outputs for term in self.terms):
            raise InputError(f"a term has another number of coefficients than {self.outputs}")
        if not np.isfinite([term.coefficient for term in self.terms]).all():
            raise InputError("a coefficient is not finite; train again with fewer rounds")
        if self.class_weights is not None and len(self.class_weights) != len(self.labels or ()):
            raise InputError("there must be one class weight for each label; train again")
        if self.clip is not None:
            checks.positive("clip", self.clip, allow_infinity=True)
        self.clipped_loss  # noqa: B018 - checked
        if self.bounds is not None:
            self._check_fit(self.bounds)

    def _check_fit(self, bounds: Bounds) -> None:
        features = self.feature_map
        # a file could name any number of features: never build more than there are terms
        if features is not None and features.columns > len(self.terms):
            raise InputError("there are fewer coefficients than features")
        if features is None:
            blank = table_terms(bounds, np.zeros((len(encoded_names(bounds)), 1)))
        else:
            blank = feature_terms(bounds, features, np.zeros((features.columns, 1)))
        if [term[:2] for term in blank] != [term[:2] for term in self.terms]:
            raise InputError("the coefficients do not match the columns of the preprocessing")
        if (bounds.labels, bounds.target_name) != (self.labels, self.target):
            raise InputError("target and labels differ from those of the preprocessing")

    @cached_property
    def clipped_loss(self) -> ClippedLoss:
        """The loss that was minimised; for a custom class only the name is known."""
        named = Named.parse("loss", self.loss)
        if Named.is_custom(self.loss):
            return ClippedLoss(self.loss, Squared(), self.clip)
        classes = None if self.labels is None else len(self.labels)
        loss = loss_named(named.name, named.numbers, self.task, classes)
        return ClippedLoss(self.loss, weighted(loss, self.class_weights), self.clip)

    @property
    def outputs(self) -> int:
        """K, the number of scores of a row."""
        if Named.is_custom(self.loss):
            return len(self.labels) if self.task == "multiclass" and self.labels else 1
        return self.clipped_loss.loss.outputs or 1

    def with_form(self, given: Mapping[str, Any]) -> Model:
        """Return the model for files of another format; see `Form.changed`."""
        if self.bounds is None:
            return self
        bounds = replace(self.bounds, form=self.bounds.form.changed(given))
        return replace(self, bounds=bounds)


def table_terms(
    bounds: Bounds, weights: Float[HostArray, "D *K"], *, linear: bool = True
) -> tuple[Term, ...]:
    r"""Return the terms of a model with weights per encoded column, the intercept first.

    An entry :math:`(x - c) / h` (`taciturn.tables.offsets_and_scales`) of weight w has the
    coefficient :math:`s w / h` and adds :math:`-s w c / h` to the intercept. For labels s = 1; for
    a numeric target s is half its range, and the middle of the range is added to the intercept,
    if scores are `linear` in it.
    """
    scaled, middle = _in_target_units(bounds, weights, linear=linear)
    zeros, units = offsets_and_scales(bounds)
    slopes = scaled / units[:, None]
    intercept = slopes[-1] + middle - zeros @ slopes
    entries = [(name, value) for name, fact in bounds.columns.items() for value in entries_of(fact)]
    rows = zip(entries, slopes[:-1].tolist(), strict=True)
    terms = (Term(name, value, tuple(row)) for (name, value), row in rows)
    return (Term(None, None, tuple(intercept.tolist())), *terms)


def feature_terms(
    bounds: Bounds,
    features: FeatureMap,
    weights: Float[HostArray, "D *K"],
    *,
    linear: bool = True,
) -> tuple[Term, ...]:
    """Return the terms of a model with weights per feature, the intercept first."""
    scaled, middle = _in_target_units(bounds, weights, linear=linear)
    intercept = np.full(scaled.shape[1], middle)
    terms = []
    for name, row in zip(features.names, scaled, strict=True):
        if name == INTERCEPT:
            intercept = intercept + row
        else:
            terms.append(Term(name, None, tuple(row.tolist())))
    return (Term(None, None, tuple(intercept.tolist())), *terms)


def _in_target_units(
    bounds: Bounds, weights: Float[HostArray, "D *K"], *, linear: bool
) -> tuple[Float[HostArray, "D K"], float]:
    """Return weights times half the range of a numeric target, and the middle of that range."""
    target = bounds.target
    if not linear:
        return weights.reshape(len(weights), -1).astype(np.float64), 0.0
    middle = target.minimum + target.width / 2 if isinstance(target, Numeric) else 0.0
    return bounds.half_range * weights.reshape(len(weights), -1).astype(np.float64), middle


FORMAT = 1


def save_model(model: Model, path: Path) -> None:
    """Write the model to `path`, atomically."""
    write_text(model_text(model), path)


def write_text(text: str, out: Path) -> None:
    """Write a file atomically; raise `InputError` if it cannot be written."""
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(out)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{out} cannot be written ({reason}); name another file") from error
    finally:
        part.unlink(missing_ok=True)


def load_model(path: Path) -> Model:
    """Return the model in the file `path`; raise `InputError` unless it is complete and consistent.

    Parts that earlier versions did not write may be absent.
    """
    values = read_values(path, "model")
    try:
        return _model(values)
    except InputError as error:
        raise InputError(f"{path} is not a usable model: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{path} is not a model: a part is missing or of the wrong kind; name the model.json "
            "that taciturn train --out DIR wrote"
        ) from error


def read_values(path: Path, what: str) -> Any:
    """Return the values in a file of strict JSON; raise `InputError`, which names it `what`.

    Repeated names and unpaired surrogates are also refused.
    """

    def refuse(constant: str) -> NoReturn:
        raise ValueError(constant)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):  # parsers differ in which of the two they use
            raise ValueError("a name occurs twice in an object")
        return dict(pairs)

    try:
        text = path.read_text(encoding="utf-8")
        values = json.loads(text, parse_constant=refuse, object_pairs_hook=once)
        json.dumps(values, ensure_ascii=False).encode()  # an unpaired surrogate cannot be printed
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"the {what} {path} cannot be read ({reason})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a {what}: not valid JSON; is it cut short?") from error
    return values


def model_text(model: Model) -> str:
    """Return the content of a model file: strictly valid JSON."""
    return json.dumps(model_to_dict(model), indent=1, allow_nan=False) + "\n"


def model_to_dict(model: Model) -> dict[str, Any]:
    """Return the model as JSON values."""
    values: dict[str, Any] = {"format": FORMAT}
    for field in fields(model):
        value = getattr(model, field.name)
        if field.name == "bounds":
            values["preprocessing"] = None if value is None else bounds_to_dict(value)
        elif field.name == "terms":
            values["terms"] = [term._asdict() for term in value]
        else:
            values[field.name] = "infinity" if value == math.inf else value
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(map(str, values))


def _numbers(values: Sequence[Any]) -> tuple[float, ...]:
    return tuple(map(float, values))


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError("its certificate, assessment or private score is no object; train again")
    return value


def _terms(values: Any) -> tuple[Term, ...]:
    return tuple(
        Term(term["column"], term["value"], _numbers(term["coefficient"])) for term in values
    )


# the parser of each part of a file; files of earlier versions may lack the optional ones
_PARTS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "taciturn_version": str, "data": str, "task": str, "loss": str, "target": str,
        "terms": _terms, "certificate": _object, "statement": _texts,
    }
)  # fmt: skip
_OPTIONAL: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "clip": float, "class_weights": _numbers, "features": str, "centre": _numbers,
        "assessment": _object, "private_score": _object,
    }
)  # fmt: skip


def _model(values: Any) -> Model:
    if values["format"] != FORMAT or values["task"] not in get_args(Task):
        raise InputError(f"it is not of format {FORMAT}; train again with this version of taciturn")
    parts = {name: read(values[name]) for name, read in _PARTS.items()}
    given = {**dict.fromkeys(_OPTIONAL), **values}
    for name, read in {**_OPTIONAL, "labels": _texts}.items():
        parts[name] = None if given[name] is None else read(given[name])
    bounds = values["preprocessing"]
    if bounds is not None:  # files without an interval predate the choice: theirs is [0, 1]
        bounds = bounds_from_dict({"interval": "unit", **bounds})
    return Model(bounds=bounds, **parts)


def predict(
    model: Model,
    frame: pd.DataFrame,
    *,
    keep: Sequence[str] = (),
    ignore_extra: bool = False,
    probabilities: bool | None = None,
) -> pd.DataFrame:
    """Return a prediction for each row of `frame`, with probabilities where there are any.

    The table needs the columns on which the model was trained; the target and columns that training
    ignored are not read. Numbers are clipped to their public ranges, as in training, and the
    prediction of a regression to the range of its target. Where scores are log-odds
    (`taciturn.problems.ClippedLoss.log_odds`) there is a column `probability of LABEL` per label.
    With class weights these are still the probabilities of records as they occur
    (`taciturn.problems.ClippedLoss.probabilities`), and the prediction is the label of the largest
    product of weight and probability.

    Columns to `keep` precede the prediction and may be unknown to the model. With `ignore_extra`,
    other unknown columns are ignored. `probabilities`: True raises if there are none, False omits
    them.

    **Guarantee.** Predictions are post-processing of the model, so they reveal no more of the
    training records than it does. The rows of `frame` are not protected.
    """
    unknown = [name for name in keep if name not in frame.columns]
    if unknown:
        raise InputError(f"the table has no column {unknown[0]!r} to keep; name one that it has")
    kept: dict[str, object] = {name: frame[name].to_numpy() for name in keep}
    scores = _scores(model, frame, set(frame.columns) if ignore_extra else set(keep))
    added: dict[str, Any] = {}
    added["prediction"] = _predicted(model, scores)
    if probabilities is not False:
        likely = model.clipped_loss.probabilities(scores[:, 0] if model.outputs == 1 else scores)
        if likely is not None:
            columns = zip(model.labels or (), likely.T, strict=True)
            added |= {f"probability of {label}": values for label, values in columns}
        elif probabilities:
            why = model.clipped_loss.without_probabilities("--clip ")
            raise InputError(f"{why}; or leave --proba out")
    both = sorted(set(kept) & set(added))
    if both:
        raise InputError(
            f"the column {both[0]!r} to keep is also a column of the result; rename it"
        )
    return pd.DataFrame({**kept, **added})


def _predicted(model: Model, scores: Float[HostArray, "N K"]) -> HostArray:
    """Return the prediction of every row of scores."""
    loss = model.clipped_loss.loss
    if isinstance(loss, Survival):
        return np.asarray(loss.predict(jnp.asarray(scores)))
    if model.labels is not None:
        if model.outputs == 1:
            chosen = is_second(scores[:, 0]).astype(int)
        elif isinstance(loss, CumulativeLogistic):
            chosen = np.asarray(loss.predict(jnp.asarray(scores)))
        else:
            chosen = scores.argmax(axis=1)
        labels: HostArray = np.array(model.labels, object)[chosen]
        return labels
    target = None if model.bounds is None else model.bounds.target
    with np.errstate(over="ignore"):
        found = np.exp(scores[:, 0]) if isinstance(loss, CountLoss) else scores[:, 0]
    inside: HostArray = found
    if isinstance(target, Numeric):
        inside = np.clip(found, target.minimum, target.maximum)
    return inside


class Effect(NamedTuple):
    """The change of the score, (K,), where one cell of the reference row is replaced by a value."""

    column: str
    value: str  # "" for a missing cell
    change: tuple[float, ...]


_ROWS = 1000  # per table of effects, to save memory


def effects(model: Model) -> tuple[tuple[Effect, ...], ...]:
    """Return the effects of every column at stated values, the reference first, where it is 0.

    The reference row has every number at the middle of its range on its scale, and every category
    at its first value. Changes are in log-odds where scores are log-odds, for a regression in the
    units of the target, or in the logarithm of its mean. Where rows are taken around a centre a
    column's effect depends on the other cells, and this is the one at the reference.
    """
    bounds = model.bounds
    if bounds is None:
        raise InputError(f"the columns of {model.data} are prepared by its loader; no effects")
    cells = {name: stated_cells(fact) for name, fact in bounds.columns.items()}
    reference = {name: values[0] for name, values in cells.items()}
    stated = [(name, value) for name, values in cells.items() for value in values[1:]]
    scores = _scores(model, pd.DataFrame([reference]), set())
    changes = [scores[:0]]
    for start in range(0, len(stated), _ROWS):
        rows = [reference | {name: value} for name, value in stated[start : start + _ROWS]]
        changes.append(_scores(model, pd.DataFrame(rows, columns=list(reference)), set()) - scores)
    rest, zero = iter(np.concatenate(changes).tolist()), (0.0,) * model.outputs

    def effect(name: str, value: str | float | None, change: Sequence[float]) -> Effect:
        text = f"{value:.15g}" if isinstance(value, float) else value or ""
        return Effect(name, text, tuple(change))

    return tuple(
        (effect(name, first, zero), *(effect(name, value, next(rest)) for value in others))
        for name, (first, *others) in cells.items()
    )


def _scores(model: Model, frame: pd.DataFrame, spare: set[str]) -> Float[HostArray, "N K"]:
    """Return the scores of the rows of a table, which may have `spare` columns."""
    bounds, features = model.bounds, model.feature_map
    if bounds is None:
        raise InputError(
            f"this model belongs to the bundled data set {model.data}, whose columns are prepared "
            "by its loader; predict works with models of your own tables"
        )
    table = frame.drop(columns=list(spare - set(bounds.described)))
    rows: HostArray = encode(table, bounds, with_target=False).features
    # what the coefficients multiply: columns in their units, or features, and a constant 1
    if features is None:
        zeros, units = offsets_and_scales(bounds)
        addends = rows * units + zeros
    else:
        kept = [place for place, name in enumerate(features.names) if name != INTERCEPT]
        addends = np.concatenate([features.apply(rows)[:, kept], np.ones((len(rows), 1))], axis=1)
    coefficients = np.array([term.coefficient for term in (*model.terms[1:], model.terms[0])])
    with np.errstate(over="ignore", invalid="ignore"):
        scores: HostArray = addends @ coefficients
    if not np.isfinite(scores).all():
        raise InputError("a prediction is not a finite number; this model is unusable, train again")
    return scores
