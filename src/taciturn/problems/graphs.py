"""A graph of columns, learned from records."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from taciturn import checks
from taciturn.errors import InputError
from taciturn.typing import HostArray

DEFAULT_GRAPH_WEIGHT = 0.2


def learned_edges(rows: Float[HostArray, "n d"], *, weight: float) -> Int[HostArray, "e 2"]:
    """Return the pairs of columns that a sparse inverse covariance joins (the graph phi).

    scikit-learn's graphical lasso on the correlations of `rows`, to which a hundredth of the
    identity is added so that constant and collinear columns have an inverse.

    **Guarantee.** None: the graph is a function of `rows`. A run that uses it is private towards
    these records only if they are public (a public split), and a certificate about them must say
    that the graph is taken as public.

    Parameters
    ----------
    weight
        Of the l1 norm of the inverse; the larger, the fewer edges. Correlations of at most that
        size are joined by no edge on their own.

    Raises
    ------
    InputError
        If the weight is not above 0, or no pair of columns is joined.
    """
    from sklearn.covariance import graphical_lasso  # noqa: PLC0415 - 0.2 s to import

    checks.positive("the weight of the graphical lasso", weight)
    centred = rows - rows.mean(axis=0)
    spread = np.maximum(centred.std(axis=0), 1e-12)
    scaled = np.where(centred.std(axis=0) > 0, centred / spread, 0.0)
    correlation = scaled.T @ scaled / len(rows) + 0.01 * np.eye(rows.shape[1])
    _, precision = graphical_lasso(correlation, alpha=weight, max_iter=200, tol=1e-3)
    joined = np.argwhere(np.triu(np.abs(precision) > 1e-8, k=1))
    if not len(joined):
        raise InputError("the graphical lasso joins no columns; use a smaller weight")
    return np.asarray(joined, dtype=int)
