"""scikit-learn's own checks of the estimators; one of them is excused, for a reason.

The checks bring their own labels, so `classes` cannot be given beforehand; all else can. Most run
without noise, which compiles faster; those about accuracy and repetition run with it too.
"""

import math

import jax
import pytest
from sklearn.base import is_classifier
from sklearn.utils import estimator_checks

from taciturn.estimators import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateStructuredClassifier,
    PrivateSVC,
    PublicBounds,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::taciturn.errors.PublicFactsWarning"),
    pytest.mark.filterwarnings("ignore:Can't check dok sparse matrix:UserWarning"),
    # the checks put a StandardScaler in front of some of their data
    pytest.mark.filterwarnings(
        "ignore:column .* mean 0 and variance 1:taciturn.errors.PrivacyWarning"
    ),
]


@pytest.fixture(autouse=True, scope="module")
def _compile_quickly():
    """Programs of many shapes run once each, so compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def configured(epsilon):
    public = {"epsilon": epsilon, "delta": 1e-5, "bounds": (-5, 5)}
    return [
        PrivateLogisticRegression(**public),
        PrivateSVC(**public),
        PrivateStructuredClassifier(**public),
        PrivateLinearRegression(**public, target_bounds=(-5, 5)),
    ]


EXCUSED = {"check_class_weight_classifiers": "it asks for weights above 1, and for balanced ones"}


def with_missing_cells(epsilon):
    regression = configured(epsilon)[-1]
    return [PublicBounds(bounds=(-5, 5)), regression.set_params(missing="indicator")]


@estimator_checks.parametrize_with_checks(
    [*configured(math.inf), *with_missing_cells(math.inf)], expected_failed_checks=lambda _: EXCUSED
)
@pytest.mark.unchecked
def test_the_estimators_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", configured(1000.0), ids=lambda e: type(e).__name__)
def test_with_noise_they_still_repeat_themselves_and_are_accurate(estimator):
    name = type(estimator).__name__
    estimator_checks.check_fit_idempotent(name, estimator)
    if is_classifier(estimator):
        estimator_checks.check_classifiers_train(name, estimator)
    else:
        estimator_checks.check_regressors_train(name, estimator)
