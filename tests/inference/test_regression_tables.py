"""Tables of coefficients beside statsmodels, their intervals, and runs without a table."""

import json
import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from conftest import bounds_of_ill
from taciturn.cli.main import main
from taciturn_verify import verify


def bounds_text(frame, target, family):
    """Public bounds a little wider than the records, for tests without privacy."""
    lines = ['source = "public"', "[target]", f'name = "{target}"', described(frame[target], 0)]
    if family == "poisson":  # a mean is limited to the range
        lines[-1] = f"min = 0\nmax = {5 * frame[target].max()}"
    if family == "logistic":
        lines[-1] = f"values = {sorted(frame[target].unique())}".replace("'", '"')
    for name in frame.columns.drop(target):
        lines += [f'[columns."{name}"]', described(frame[name], 1)]
    return "\n".join(lines) + "\n"


def described(column, margin):
    if column.dtype.kind not in "iuf":
        return f"values = {sorted(column.unique())}".replace("'", '"')
    low, high = float(column.min()), float(column.max())
    return f"min = {low - margin * (high - low) / 10}\nmax = {high + margin * (high - low) / 10}"


def table_of(folder, frame, formula, family, *more, bounds=None):
    target = formula.split("~")[0].strip()
    frame.to_csv(folder / "t.csv", index=False)
    (folder / "b.toml").write_text(bounds or bounds_text(frame, target, family))
    given = [
        "regress", folder / "t.csv", "--formula", formula, "--family", family, "--bounds",
        folder / "b.toml", "--quiet", "--out", folder / "out", *more,
    ]  # fmt: skip
    status = main([str(one) for one in given])
    private = "--without-privacy" not in more
    name = "coefficients" if private else "not-private-coefficients"
    table = json.loads((folder / "out" / f"{name}.json").read_text())
    assert table["private"] == private
    assert status == (0 if table["refused"] is None else 2)
    assert (folder / "out" / f"{name}.csv").exists() == (table["refused"] is None)
    return table


def loaded(name):
    data = getattr(sm.datasets, name).load_pandas()
    return data.data


def fair():
    data = loaded("fair").head(3000)
    return data.assign(
        had=np.where(data.affairs > 0, "yes", "no"),
        job="job" + data.occupation.astype(int).astype(str),
    )


PUBLIC = {
    "fair, logistic": (
        lambda: fair()[["had", "age", "yrs_married", "religious", "job"]],
        "had ~ age + yrs_married + religious + C(job)", "logistic",
    ),
    "fair, product": (
        lambda: fair()[["had", "age", "yrs_married", "job"]],
        'had ~ age * yrs_married + C(job, Treatment("job3"))', "logistic",
    ),
    "fair, counts": (
        lambda: fair()[["children", "age", "educ", "job"]], "children ~ age + educ + job",
        "poisson",
    ),
    "randhie": (
        lambda: loaded("randhie").head(5000)[["mdvis", "lncoins", "idp", "physlm", "disea"]],
        "mdvis ~ lncoins + idp + physlm + disea", "poisson",
    ),
    "spector": (
        lambda: loaded("spector").assign(GRADE=lambda d: np.where(d.GRADE > 0, "up", "no")),
        "GRADE ~ GPA + TUCE + PSI", "logistic",
    ),
    "ccard": (
        lambda: loaded("ccard")[["AVGEXP", "AGE", "INCOME", "OWNRENT"]],
        "AVGEXP ~ AGE + INCOME + OWNRENT", "gaussian",
    ),
    "stackloss": (
        lambda: loaded("stackloss"), "STACKLOSS ~ AIRFLOW + WATERTEMP + ACIDCONC", "gaussian",
    ),
    "engel": (lambda: loaded("engel"), "foodexp ~ income", "gaussian"),
    "strikes": (lambda: loaded("strikes")[["duration", "iprod"]], "duration ~ iprod", "gaussian"),
    "cpunish": (
        lambda: loaded("cpunish")[["EXECUTIONS", "INCOME", "PERPOVERTY", "SOUTH"]],
        "EXECUTIONS ~ INCOME + PERPOVERTY + SOUTH", "poisson",
    ),
}  # fmt: skip
FAMILIES = {
    "gaussian": sm.families.Gaussian, "logistic": sm.families.Binomial,
    "poisson": sm.families.Poisson,
}  # fmt: skip


def elsewhere(frame, formula, family, **options):
    target = formula.split("~")[0].strip()
    if family == "logistic":
        frame = frame.assign(**{target: frame[target] == sorted(frame[target].unique())[1]})
        frame[target] = frame[target].astype(float)
    return smf.glm(formula, frame, family=FAMILIES[family]()).fit(tol=1e-14, **options)


def by_values(table, what):
    return np.sort([one[what] for one in table["coefficients"]])


@pytest.mark.parametrize("name", PUBLIC)
def test_without_privacy_the_table_is_that_of_statsmodels(name, tmp_path):
    make, formula, family = PUBLIC[name]
    frame = make()
    table = table_of(tmp_path, frame, formula, family, "--without-privacy")
    other = elsewhere(frame, formula, family)
    assert table["refused"] is None
    for what, found in (("estimate", other.params), ("standard_error", other.bse)):
        np.testing.assert_allclose(by_values(table, what), np.sort(found), rtol=1e-6, atol=1e-9)
    ends = other.conf_int().to_numpy()
    np.testing.assert_allclose(by_values(table, "low"), np.sort(ends[:, 0]), rtol=2e-6, atol=1e-8)
    assert all(one["by_noise"] == 0 for one in table["coefficients"])


@pytest.mark.parametrize("name", ["fair, logistic", "randhie", "ccard"])
def test_robust_errors_are_the_sandwich(name, tmp_path):
    make, formula, family = PUBLIC[name]
    frame = make()
    table = table_of(tmp_path, frame, formula, family, "--without-privacy", "--robust")
    other = elsewhere(frame, formula, family, cov_type="HC0")
    np.testing.assert_allclose(by_values(table, "standard_error"), np.sort(other.bse), rtol=1e-6)


def patients(count, seed=0):
    draw = np.random.default_rng(seed)
    age, sex = draw.integers(18, 90, count), draw.choice(["f", "m"], count)
    score = -3 + 0.05 * age + 0.5 * (sex == "m")
    ill = np.where(draw.random(count) < 1 / (1 + np.exp(-score)), "yes", "no")
    return pd.DataFrame({"age": age, "sex": sex, "ill": ill})


BOUNDS = bounds_of_ill(age="min = 18\nmax = 90", sex='values = ["f", "m"]')
TERMS = {"(intercept)": -3, "age": 0.05, "sex=m": 0.5}


def test_a_private_table_holds_the_truth_in_its_intervals_and_its_certificate_follows(
    tmp_path, capsys
):
    table = table_of(
        tmp_path, patients(30_000), "ill ~ age + C(sex)", "logistic", "--epsilon", "2", "--delta",
        "1e-6", bounds=BOUNDS,
    )  # fmt: skip
    assert table["references"] == {"sex": "f"}
    for one in table["coefficients"]:
        error = math.hypot(one["by_sampling"], one["by_noise"])
        assert one["standard_error"] == pytest.approx(error)
        assert abs(one["estimate"] - TERMS[one["term"]]) < 4.5 * error
        assert (one["effect"] is None) == (one["term"] == "(intercept)")
    (certificate,) = (tmp_path / "out").glob("certificate*.json")
    assert verify(json.loads(certificate.read_text())).verdict == "follows"
    printed = capsys.readouterr().out
    assert "sex: compared with f" in printed
    assert "odds ratio" in printed
    assert "was charged nowhere" in printed


def test_too_few_records_give_no_table_and_the_reason(tmp_path, capsys):
    table = table_of(
        tmp_path, patients(400), "ill ~ age + sex", "logistic", "--epsilon", "0.5", "--delta",
        "1e-5", bounds=BOUNDS,
    )  # fmt: skip
    assert table["coefficients"] == []
    assert "the noise hides" in table["refused"]
    assert "No table: the noise hides" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("formula", "family", "more", "said"),
    [
        ("ill ~ age", "cox", (), "there is no family 'cox'"),
        ("ill ~ age", "poisson", (), "is two labels"),
        ("ill ~ weight", "logistic", (), "no column of the bounds file"),
        ("age ~ sex", "logistic", (), "age"),
        ("ill ~ age", "logistic", ("--rounds", "2"), "rounds is 2"),
        ("ill ~ age^2", "logistic", (), "power of a column"),
        ("ill ~ C(age)", "logistic", (), "'age' is a number"),
        ("ill ~ age", "logistic", ("--without-privacy",), "has no budget"),
    ],
)
def test_what_cannot_be_estimated_is_refused_in_one_line(
    formula, family, more, said, tmp_path, capsys
):
    patients(50).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "b.toml").write_text(BOUNDS)
    given = [
        "regress", tmp_path / "t.csv", "--formula", formula, "--family", family, "--bounds",
        tmp_path / "b.toml", "--epsilon", "1", "--delta", "1e-3", *more,
    ]  # fmt: skip
    assert main([str(one) for one in given]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_fewer_records_than_coefficients_are_refused_before_the_charge(tmp_path, capsys):
    patients(3).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "b.toml").write_text(BOUNDS)
    given = ["regress", tmp_path / "t.csv", "--target", "ill", "--family", "logistic"]
    given += ["--bounds", tmp_path / "b.toml", "--epsilon", "1", "--delta", "1e-3"]
    assert main([str(one) for one in given]) == 2
    assert "too few" in capsys.readouterr().err


def test_terms_that_determine_one_another_are_found_without_privacy(tmp_path):
    frame = patients(300).assign(months=lambda d: 12 * d.age)
    table = table_of(tmp_path, frame, "ill ~ age + months", "logistic", "--without-privacy")
    assert "some terms follow from others" in table["refused"]
