"""Steps around a private estimator that may learn from the records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn import preprocessing
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder

from taciturn.estimators.base import PrivateLinearModel
from taciturn.estimators.ranges import PublicBounds

# their output for a row depends on that row and on their settings alone
_BY_ROW = (
    PublicBounds, preprocessing.Normalizer, preprocessing.Binarizer,
    preprocessing.PolynomialFeatures, FeatureHasher, HashingVectorizer, FunctionTransformer,
)  # fmt: skip


def check_pipeline(estimator: Any) -> tuple[str, ...]:
    """Return one sentence for each step that the certificate of a private estimator does not cover.

    The steps of a `Pipeline`, or of another scikit-learn object that contains a private estimator,
    are judged by class and settings; no record is read. A step is reported unless it is known to
    transform each row alone, by public numbers. Steps before the pipeline cannot be seen.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from taciturn.estimators import PrivateSVC
    >>> check_pipeline(make_pipeline(PublicBounds(bounds=(0, 9)), PrivateSVC()))
    ()
    >>> (sentence,) = check_pipeline(make_pipeline(StandardScaler(), PrivateSVC()))
    >>> sentence.partition(";")[0]
    "the step 'standardscaler' (StandardScaler) may learn from the records"
    """
    return tuple(_around(estimator, type(estimator).__name__))


def _around(part: Any, name: str) -> Iterator[str]:
    """Yield sentences about a part that should contain a private estimator."""
    if isinstance(part, PrivateLinearModel):
        return
    if isinstance(part, Pipeline):
        *before, (last, end) = part.steps
        for step, transformer in before:
            yield from _learns(transformer, step)
        yield from _around(end, last)
        return
    inside = [
        (key, one)
        for key, one in getattr(part, "get_params", dict)().items()
        if isinstance(one, PrivateLinearModel | Pipeline)
    ]
    if not inside:
        yield f"{name!r} ({type(part).__name__}) is not a private estimator and contains none"
        return
    yield (
        f"{name!r} ({type(part).__name__}) may fit the estimator more than once, or on rows that "
        "are drawn or weighted; each fit spends its own budget, and no certificate covers all of "
        "them"
    )
    for key, one in inside:
        if isinstance(one, Pipeline):
            yield from _around(one, key)


def _learns(step: Any, name: str) -> Iterator[str]:
    """Yield sentences about a step before a private estimator."""
    if isinstance(step, Pipeline | FeatureUnion | ColumnTransformer):
        for inner, part in _parts(step):
            yield from _learns(part, inner)
    elif isinstance(step, FunctionTransformer) and step.func is not None:
        yield (
            f"the step {name!r} (FunctionTransformer) applies a function that cannot be inspected; "
            "make sure that it transforms each row alone, by public numbers"
        )
    elif not _by_row(step):
        yield (
            f"the step {name!r} ({type(step).__name__}) may learn from the records; the "
            "certificate does not cover that: put PublicBounds or another step with public "
            "settings in its place"
        )


def _parts(step: Pipeline | FeatureUnion | ColumnTransformer) -> list[tuple[str, Any]]:
    """Return the named steps of a composite."""
    if isinstance(step, ColumnTransformer):
        named = [(name, part) for name, part, _ in step.transformers]
        return [*named, ("remainder", step.remainder)]
    return list(step.steps if isinstance(step, Pipeline) else step.transformer_list)


def _by_row(step: Any) -> bool:
    """Return whether a step is known to transform each row alone, by its settings only."""
    if step is None or (isinstance(step, str) and step in {"passthrough", "drop"}):
        return True
    if isinstance(step, OneHotEncoder | OrdinalEncoder):
        counts = step.min_frequency is not None or step.max_categories is not None
        return not counts and not isinstance(step.categories, str)
    if isinstance(step, SimpleImputer):
        constant = step.strategy == "constant" and step.keep_empty_features
        return bool(constant and not step.add_indicator)
    return isinstance(step, _BY_ROW)
