"""Tables without privacy beside values printed in R's documentation, and those of lifelines."""

import numpy as np
import pandas as pd
import pytest

from taciturn.regression import PrivateGLM


def fitted(frame, formula, family, target, columns, **more):
    bounds = {"source": "public", "target": target, "columns": columns}
    glm = PrivateGLM(
        formula=formula, family=family, bounds=bounds, epsilon=float("inf"), delta=1e-6, **more
    )
    return glm.fit(frame).table_.to_frame()


def numbers(low, high):
    return {"min": low, "max": high}


def agrees(table, printed, digits):
    """Check estimates and errors by term, printed with so many significant digits."""
    for term, values in printed.items():
        for what, value in zip(("estimate", "standard_error"), values, strict=True):
            place = 10.0 ** (np.floor(np.log10(abs(value))) - digits + 1)
            assert table.loc[term, what] == pytest.approx(value, abs=0.501 * place), (term, what)


def test_poisson_is_that_of_the_example_of_glm():
    """Randomised controlled trial of Dobson (1990), page 93; R's ?glm."""
    frame = pd.DataFrame({
        "counts": [18.0, 17, 15, 20, 10, 20, 25, 13, 12], "outcome": list("123123123"),
        "treatment": list("111222333"),
    })  # fmt: skip
    values = {"values": ["1", "2", "3"]}
    found = fitted(
        frame, "counts ~ outcome + treatment", "poisson", {"name": "counts", **numbers(0, 30)},
        {"outcome": values, "treatment": values},
    )  # fmt: skip
    printed = {
        "(intercept)": (3.045, 0.1709),
        "outcome=2": (-0.4543, 0.2022),
        "outcome=3": (-0.2930, 0.1927),
    }
    agrees(found, printed, 4)
    assert np.allclose(found.loc[["treatment=2", "treatment=3"], "estimate"], 0, atol=1e-9)
    assert np.allclose(found.loc[["treatment=2", "treatment=3"], "standard_error"], 0.2, atol=1e-6)


ANOREXIA = {
    "Cont": (
        "80.7 89.4 91.8 74.0 78.1 88.3 87.3 75.1 80.6 78.4 77.6 88.7 81.3 78.1 70.5 77.3 85.2 86.0 "
        "84.1 79.7 85.5 84.4 79.6 77.5 72.3 89.0",
        "80.2 80.1 86.4 86.3 76.1 78.1 75.1 86.7 73.5 84.6 77.4 79.5 89.6 81.4 81.8 77.3 84.2 75.4 "
        "79.5 73.0 88.3 84.7 81.4 81.2 88.2 78.8",
    ),
    "CBT": (
        "80.5 84.9 81.5 82.6 79.9 88.7 94.9 76.3 81.0 80.5 85.0 89.2 81.3 76.5 70.0 80.4 83.3 83.0 "
        "87.7 84.2 86.4 76.5 80.2 87.8 83.3 79.7 84.5 80.8 87.4",
        "82.2 85.6 81.4 81.9 76.4 103.6 98.4 93.4 73.4 82.1 96.7 95.3 82.4 72.5 90.9 71.3 85.4 "
        "81.6 89.1 83.9 82.7 75.7 82.6 100.4 85.2 83.6 84.6 96.2 86.7",
    ),
    "FT": (
        "83.8 83.3 86.0 82.5 86.7 79.6 76.9 94.2 73.4 80.5 81.6 82.1 77.6 83.5 89.9 86.0 87.3",
        "95.2 94.3 91.5 91.9 100.3 76.7 76.8 101.6 94.9 75.2 77.8 95.5 90.7 92.5 93.8 91.7 98.0",
    ),
}  # fmt: skip


def test_gaussian_with_an_offset_is_that_of_the_example_of_glm():
    """Anorexia of Hand et al. (1993); R's ?glm has the weight before as term and as offset."""
    frame = pd.concat([
        pd.DataFrame({"treat": name, "pre": before.split(), "post": after.split()})
        for name, (before, after) in ANOREXIA.items()
    ]).astype({"pre": float, "post": float})  # fmt: skip
    frame = frame.assign(gain=frame.post - frame.pre).drop(columns="post")
    found = fitted(
        frame, 'gain ~ pre + C(treat, Treatment("CBT"))', "gaussian",
        {"name": "gain", **numbers(-30, 30)},
        {"pre": numbers(60, 110), "treat": {"values": ["Cont", "CBT", "FT"]}},
    )  # fmt: skip
    printed = {
        "(intercept)": (49.7711, 13.3910), "pre": (-0.5655, 0.1612),
        "treat=Cont": (-4.0971, 1.8935), "treat=FT": (4.5631, 2.1333),
    }  # fmt: skip
    agrees(found, printed, 4)


OVARIAN = pd.DataFrame({
    "futime": [59.0, 115, 156, 421, 431, 448, 464, 475, 477, 563, 638, 744, 769, 770, 803, 855,
               1040, 1106, 1129, 1206, 1227, 268, 329, 353, 365, 377],
    "fustat": [1, 1, 1, 0, 1, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0],
    "rx": [1.0, 1, 1, 2, 1, 1, 2, 2, 1, 2, 1, 2, 2, 2, 1, 1, 1, 1, 2, 2, 2, 1, 1, 2, 2, 2],
    "ecog": [1.0, 1, 2, 1, 1, 2, 2, 2, 1, 2, 2, 1, 2, 1, 1, 2, 2, 1, 1, 1, 2, 2, 1, 2, 1, 1],
})  # fmt: skip


def survived(formula, **more):
    columns = {"fustat": {"values": ["0", "1"]}, "rx": numbers(1, 2), "ecog": numbers(1, 2)}
    target = {"name": "futime", **numbers(0, 1500)}
    return fitted(
        OVARIAN, formula, "piecewise-exponential", target, columns, largest_hazard=50.0, **more
    )


def test_exponential_survival_is_that_of_the_example_of_survreg():
    """R's ?survreg; it models the logarithm of the time, so that all signs are opposite."""
    found = survived("Surv(futime, fustat) ~ ecog + rx")
    printed = {"(intercept)": (-6.962, 1.322), "ecog": (0.433, 0.587), "rx": (-0.582, 0.587)}
    found = found.rename(index={one: "(intercept)" for one in found.index if one not in printed})
    agrees(found, printed, 3)


def test_hazards_by_interval_are_those_of_lifelines():
    """`PiecewiseExponentialFitter([200, 400])` of lifelines 0.30.3: mean times and errors."""
    found = survived("Surv(futime, fustat) ~ 1", cuts=(200.0, 400.0))
    mean = np.exp(-found.estimate)
    np.testing.assert_allclose(mean, [1643.333332, 1072.999996, 1273.200046], rtol=1e-6)
    errors = mean * found.standard_error
    np.testing.assert_allclose(errors, [948.778941, 536.499996, 569.392391], rtol=1e-6)
