"""Private regression tables: coefficients with standard errors, from Newton's method."""

from taciturn.regression.expected import Expected, expect, expected_lines
from taciturn.regression.families import FAMILIES, Family, family_named
from taciturn.regression.glm import PrivateGLM
from taciturn.regression.inference import Fit, fit, noise_of_mean
from taciturn.regression.printed import latex_of, lines_of
from taciturn.regression.request import RegressionRequest, regression_request, response_name, sides
from taciturn.regression.table import (
    LEVEL,
    Coefficient,
    RegressionTable,
    in_units,
    is_regression,
    parts_of,
    references,
    regression_table,
)

__all__ = [
    "FAMILIES", "LEVEL", "Coefficient", "Expected", "Family", "Fit", "PrivateGLM",
    "RegressionRequest", "RegressionTable", "expect", "expected_lines", "family_named", "fit",
    "in_units", "is_regression", "latex_of", "lines_of", "noise_of_mean", "parts_of", "references",
    "regression_request", "regression_table", "response_name", "sides",
]  # fmt: skip
