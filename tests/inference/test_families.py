"""Families of responses without privacy beside statsmodels, on persons and periods split here."""

import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from statsmodels.miscmodels.ordinal_model import OrderedModel

from taciturn.cli.main import main
from taciturn.problems import Named
from taciturn.regression import (
    FAMILIES,
    PrivateGLM,
    RegressionRequest,
    is_regression,
    parts_of,
    regression_request,
)
from taciturn.tables.bounds import bounds_from_dict
from taciturn.training import DataFacts, Request, propose
from taciturn_verify import verify


def table_of(folder, frame, bounds, formula, family, *more):
    frame.to_csv(folder / "t.csv", index=False)
    (folder / "b.toml").write_text(bounds)
    given = [
        "regress", folder / "t.csv", "--formula", formula, "--family", family, "--bounds",
        folder / "b.toml", "--quiet", "--without-privacy", "--out", folder / "out", *more,
    ]  # fmt: skip
    assert main([str(one) for one in given]) == 0
    table = json.loads((folder / "out" / "not-private-coefficients.json").read_text())
    assert table["refused"] is None
    return {one["term"]: one for one in table["coefficients"]}


def agrees(table, names, estimates, errors):
    found = [[table[name][what] for name in names] for what in ("estimate", "standard_error")]
    np.testing.assert_allclose(found[0], estimates, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found[1], errors, rtol=1e-6, atol=1e-8)


LONGEST, CUTS = 5.0, (0.5, 1.5, 3.0)
TIMES = """source = "public"
[target]
name = "time"
min = 0
max = 5
[columns.event]
values = ["0", "1"]
[columns.entry]
min = 0
max = 5
[columns.age]
min = 20
max = 90
[columns.arm]
values = ["a", "b"]
"""


def patients(count=700, seed=0):
    draw = np.random.default_rng(seed)
    age, arm = draw.uniform(25, 85, count), draw.choice(["a", "b"], count)
    rate = 0.15 * np.exp(0.02 * (age - 50) - 0.4 * (arm == "b"))
    died, left = draw.exponential(1 / rate), draw.uniform(0.5, 8, count)
    time = np.minimum(np.minimum(died, left), 4.999)
    entry = np.where(draw.random(count) < 0.3, draw.uniform(0, 1, count) * time, 0.0)
    event = (died <= np.minimum(left, 4.999)).astype(int)
    return pd.DataFrame({"time": time, "event": event, "entry": entry, "age": age, "arm": arm})


def periods(frame):
    """One row for each person and interval, by a loop."""
    ends, rows = (0.0, *CUTS, LONGEST), []
    for one in frame.itertuples():
        for k in range(len(ends) - 1):
            low, high = max(ends[k], one.entry), min(ends[k + 1], one.time)
            if high > low:
                died = int(one.event and ends[k] < one.time <= ends[k + 1])
                rows.append((f"p{k}", high - low, died, one.age, one.arm))
    return pd.DataFrame(rows, columns=["period", "spent", "died", "age", "arm"])


NAMES = ["0 to 0.5", "0.5 to 1.5", "1.5 to 3", "3 to 5"]


@pytest.mark.parametrize(
    ("family", "other"),
    [
        ("piecewise-exponential", sm.families.Poisson()),
        ("discrete-logistic", sm.families.Binomial()),
        ("cloglog", sm.families.Binomial(sm.families.links.CLogLog())),
    ],
)
@pytest.mark.parametrize("entered", [False, True])
def test_survival_times_are_persons_and_periods(family, other, entered, tmp_path):
    frame = patients()
    response = "Surv(entry, time, event)" if entered else 'Surv(time, event == "1")'
    bounds = TIMES
    if not entered:
        frame["entry"] = 0.0
    table = table_of(
        tmp_path, frame, bounds, f"{response} ~ age + C(arm)", family, "--cuts", "0.5,1.5,3",
        "--largest-hazard", "30",
    )  # fmt: skip
    split = periods(frame)
    offset = np.log(split.spent) if family.startswith("piecewise") else None
    model = smf.glm("died ~ 0 + period + age + arm", split, family=other, offset=offset)
    fitted = model.fit(tol=1e-14)
    names = [f"period[p{k}]" for k in range(4)] + ["age", "arm[T.b]"]
    agrees(table, [*NAMES, "age", "arm=b"], fitted.params[names], fitted.bse[names])


RESPONSES = """source = "public"
[target]
name = "y"
{target}
[columns.x]
min = -3
max = 3
[columns.sex]
values = ["f", "m"]
[columns.spent]
min = 0.5
max = 20
scale = "log"
"""


def responses(kind, count=800, seed=1):
    draw = np.random.default_rng(seed)
    x, sex = draw.uniform(-2, 2, count), draw.choice(["f", "m"], count)
    spent, score = draw.uniform(1, 10, count), 0.3 + 0.4 * x - 0.5 * (sex == "m")
    y = {
        "negative-binomial": lambda: draw.negative_binomial(2, 2 / (2 + spent * np.exp(score))),
        "poisson": lambda: draw.poisson(spent * np.exp(score)),
        "gamma": lambda: np.clip(draw.gamma(3, np.exp(score) / 3), 0.05, None),
        "huber": lambda: score + draw.standard_t(3, count),
        "quantile": lambda: score + draw.standard_normal(count),
        "classes": lambda: np.array(["low", "mid", "top"])[
            np.digitize(score + draw.logistic(size=count), [-0.5, 1.0])
        ],
    }[kind]()
    return pd.DataFrame({"y": y, "x": x, "sex": sex, "spent": spent})


def range_of(frame):
    low = 0 if frame.y.min() >= 0 else 2 * frame.y.min()
    return f"min = {low}\nmax = {20 * frame.y.max()}"


@pytest.mark.parametrize(
    ("family", "other"),
    [
        ("poisson", sm.families.Poisson()),
        ("negative-binomial:0.5", sm.families.NegativeBinomial(alpha=0.5)),
    ],
)
def test_counts_may_have_an_offset(family, other, tmp_path):
    frame = responses(family.partition(":")[0])
    bounds = RESPONSES.format(target=range_of(frame))
    table = table_of(tmp_path, frame, bounds, "y ~ x + sex + offset(log(spent))", family)
    model = smf.glm("y ~ x + sex", frame, family=other, offset=np.log(frame.spent))
    fitted = model.fit(tol=1e-14)
    agrees(table, ["(intercept)", "x", "sex=m"], *(
        one[["Intercept", "x", "sex[T.m]"]] for one in (fitted.params, fitted.bse)
    ))  # fmt: skip
    assert "offset(spent)" not in table


def test_amounts_have_a_gamma_law(tmp_path):
    frame = responses("gamma")
    bounds = RESPONSES.format(target="min = 0.001\nmax = 100")
    table = table_of(tmp_path, frame, bounds, "y ~ x + sex", "gamma")
    link = sm.families.links.Log()
    fitted = smf.glm("y ~ x + sex", frame, family=sm.families.Gamma(link)).fit(tol=1e-14)
    agrees(table, ["(intercept)", "x", "sex=m"], *(
        one[["Intercept", "x", "sex[T.m]"]] for one in (fitted.params, fitted.bse)
    ))  # fmt: skip


def test_several_classes_are_compared_with_the_first(tmp_path):
    frame = responses("classes")
    bounds = RESPONSES.format(target='values = ["low", "mid", "top"]')
    table = table_of(tmp_path, frame, bounds, "y ~ x + sex", "multinomial")
    exog = sm.add_constant(pd.DataFrame({"x": frame.x, "m": 1.0 * (frame.sex == "m")}))
    codes = pd.Categorical(frame.y).codes
    fitted = sm.MNLogit(codes, exog).fit(disp=0, method="newton", tol=1e-14, maxiter=100)
    for column, label in enumerate(["mid", "top"]):
        names = [f"{label}: {term}" for term in ("(intercept)", "x", "sex=m")]
        agrees(table, names, fitted.params[column], fitted.bse[column])


def test_ordered_classes_have_the_estimates_and_errors_of_independent_logits(tmp_path):
    frame = responses("classes")
    bounds = RESPONSES.format(target='values = ["low", "mid", "top"]')
    table = table_of(tmp_path, frame, bounds, "y ~ x + sex", "proportional-odds")
    codes, m = pd.Categorical(frame.y).codes, 1.0 * (frame.sex == "m")
    each = pd.DataFrame({"x": frame.x, "m": m, "who": frame.index})
    stacked = pd.concat([each.assign(z=1.0 * (codes > k), cut=f"k{k}") for k in range(2)])
    fitted = smf.glm("z ~ 0 + cut + x + m", stacked, family=sm.families.Binomial()).fit(
        tol=1e-14, cov_type="cluster",
        cov_kwds={"groups": stacked.who, "use_correction": False},
    )  # fmt: skip
    names = ["above low", "above mid", "x", "sex=m"]
    agrees(table, names, fitted.params, fitted.bse)
    ordered = OrderedModel(codes, np.stack([frame.x, m], axis=1), distr="logit")
    likelihood = ordered.fit(disp=0, method="bfgs")
    away = np.array([table["x"]["estimate"], table["sex=m"]["estimate"]]) - likelihood.params[:2]
    assert np.all(np.abs(away) < 0.5 * likelihood.bse[:2])  # two estimates of the same


def test_large_residuals_count_no_more_than_the_threshold(tmp_path):
    frame = responses("huber")
    bounds = RESPONSES.format(target="min = -60\nmax = 60")
    table = table_of(tmp_path, frame, bounds, "y ~ x + sex", "huber:1.5")
    exog = np.stack([np.ones(len(frame)), frame.x, frame.sex == "m"], axis=1).astype(float)
    found = np.array([table[name]["estimate"] for name in ("(intercept)", "x", "sex=m")])
    away = frame.y.to_numpy() - exog @ found
    assert np.abs(exog.T @ np.clip(away, -1.5, 1.5)).max() < 1e-6 * len(frame)
    bread = exog.T @ (exog * (np.abs(away) <= 1.5)[:, None])
    scores = exog * np.clip(away, -1.5, 1.5)[:, None]
    sandwich = np.linalg.inv(bread) @ (scores.T @ scores) @ np.linalg.inv(bread)
    errors = [table[name]["standard_error"] for name in ("(intercept)", "x", "sex=m")]
    np.testing.assert_allclose(errors, np.sqrt(np.diag(sandwich)), rtol=1e-6)


def test_a_quantile_is_near_that_of_the_check_loss(tmp_path):
    frame = responses("quantile", 4000)
    bounds = RESPONSES.format(target="min = -8\nmax = 8")
    table = table_of(tmp_path, frame, bounds, "y ~ x + sex", "quantile:0.75,0.1")
    fitted = smf.quantreg("y ~ x + sex", frame).fit(q=0.75)
    names = ["(intercept)", "sex=m", "x"]
    found = np.array([table[name]["estimate"] for name in names])
    assert np.all(np.abs(found - fitted.params) < 0.5 * fitted.bse)
    exog = np.stack([np.ones(len(frame)), frame.sex == "m", frame.x], axis=1).astype(float)
    score = exog.T @ (1 / (1 + np.exp((frame.y.to_numpy() - exog @ found) / 0.1)) - 0.75)
    assert np.abs(score).max() < 1e-6 * len(frame)
    errors = [table[name]["standard_error"] for name in names]
    np.testing.assert_allclose(errors, fitted.bse, rtol=0.15)


def test_a_private_survival_table_holds_the_truth_and_its_certificate_follows(tmp_path, capsys):
    frame = patients(40_000, seed=3).assign(entry=0.0)
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "b.toml").write_text(TIMES)
    given = [
        "regress", tmp_path / "t.csv", "--formula", "Surv(time, event) ~ age + arm", "--family",
        "exponential", "--cuts", "1,2.5", "--bounds", tmp_path / "b.toml", "--epsilon", "3",
        "--delta", "1e-6", "--out", tmp_path / "out",
    ]  # fmt: skip
    assert main([str(one) for one in given]) == 0
    table = json.loads((tmp_path / "out" / "coefficients.json").read_text())
    found = {one["term"]: one for one in table["coefficients"]}
    truth = {"age": 0.02, "arm=b": -0.4} | dict.fromkeys(
        ["0 to 1", "1 to 2.5", "2.5 to 5"], math.log(0.15) - 0.02 * 50
    )
    assert found.keys() == truth.keys()
    for term, one in found.items():
        assert abs(one["estimate"] - truth[term]) < 4.5 * one["standard_error"]
    (certificate,) = (tmp_path / "out").glob("certificate*.json")
    assert verify(json.loads(certificate.read_text())).verdict == "follows"
    printed = capsys.readouterr().out
    assert "event: event = 1; at 5, the end" in printed
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<svg") == 1
    assert "hazard ratio" in page
    assert r"\toprule" in (tmp_path / "out" / "coefficients.tex").read_text()


def test_the_intervals_to_expect_shrink_with_the_budget_and_nothing_is_written(tmp_path, capsys):
    patients(5000).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "b.toml").write_text(TIMES)
    given = [
        "regress", tmp_path / "t.csv", "--formula", "Surv(time, event) ~ age + arm", "--family",
        "exponential", "--cuts", "1,2", "--bounds", tmp_path / "b.toml", "--delta", "1e-5",
        "--expect", "0.5,3,100", "--json",
    ]  # fmt: skip
    assert main([str(one) for one in given]) == 0
    found = json.loads(capsys.readouterr().out)["expected"]
    assert [one["refused"] for one in found] == [True, False, False]
    widths = [one["of_number"] for one in found]
    assert widths == sorted(widths, reverse=True)
    assert len({one["by_sampling"] for one in found}) == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b.toml", "t.csv"]


def test_a_value_is_too_rare_for_a_table_where_the_expectation_puts_it(tmp_path, capsys):
    draw, count = np.random.default_rng(0), 20_000
    bounds = {"source": "public", "target": {"name": "y", "values": ["0", "1"]},
              "columns": {"town": {"values": ["a", "b"]}}}  # fmt: skip
    (tmp_path / "b.toml").write_text(
        'source = "public"\n[target]\nname = "y"\nvalues = ["0", "1"]\n'
        '[columns.town]\nvalues = ["a", "b"]\n'
    )
    frame = pd.DataFrame({"y": draw.integers(0, 2, count), "town": "a"})
    frame.to_csv(tmp_path / "t.csv", index=False)
    given = [
        "regress", tmp_path / "t.csv", "--formula", "y ~ town", "--family", "logistic", "--bounds",
        tmp_path / "b.toml", "--delta", "1e-6", "--expect", "1", "--json",
    ]  # fmt: skip
    assert main([str(one) for one in given]) == 0
    (found,) = json.loads(capsys.readouterr().out)["expected"]
    assert 0.002 < found["rarest"] < 0.05
    glm = PrivateGLM(
        formula="y ~ town", family="logistic", bounds=bounds, epsilon=1.0, delta=1e-6,
        random_state=0,
    )  # fmt: skip
    for share, refused in ((2 * found["rarest"], False), (found["rarest"] / 3, True)):
        frame["town"] = np.where(np.arange(count) < share * count, "b", "a")
        reason = glm.fit(frame).table_.refused
        assert (reason is not None) == refused
    assert reason.endswith("least is known of town=b")


def test_amounts_of_which_noise_hides_the_mean_of_a_group_give_no_table_or_a_true_one():
    draw, count = np.random.default_rng(0), 50_000
    group = draw.choice(["a", "b", "c"], count, p=[0.03, 0.27, 0.7])
    mean = np.exp(7.5 + 0.3 * (group == "b") - 0.2 * (group == "c"))
    frame = pd.DataFrame({"group": group, "y": mean * draw.gamma(4, 1 / 4, count)})
    for seed in range(4):
        glm = PrivateGLM(
            formula="y ~ group", family="gamma", epsilon=3.0, delta=1e-6, random_state=seed,
            bounds={"source": "public", "target": {"name": "y", "min": 100, "max": 20_000},
                    "columns": {"group": {"values": ["a", "b", "c"]}}},
        )  # fmt: skip
        table = glm.fit(frame).table_
        found = table.to_frame()
        truth = pd.Series({"(intercept)": 7.5, "group=b": 0.3, "group=c": -0.2})
        away = (found.estimate - truth[found.index]) / found.standard_error
        assert table.refused is not None or np.all(np.abs(away) < 4)


def test_a_data_frame_gives_the_table_of_its_file(tmp_path):
    frame = responses("poisson")
    bounds = RESPONSES.format(target=range_of(frame))
    table = table_of(tmp_path, frame, bounds, "y ~ x + sex", "poisson")
    (tmp_path / "b.toml").write_text(bounds)
    glm = PrivateGLM(
        formula="y ~ x + sex", family="poisson", bounds=tmp_path / "b.toml", epsilon=math.inf,
        delta=1e-6,
    )  # fmt: skip
    made = glm.fit(frame.drop(columns="y"), frame.y, agents=frame.sex).table_.to_frame()
    for term, one in table.items():
        assert made.loc[term, "estimate"] == pytest.approx(one["estimate"], rel=1e-9)
    assert "no privacy" in glm.summary()


MISSING_BOUNDS = """source = "public"
[target]
name = "y"
min = 0
max = 10
[columns.age]
min = 20
max = 90
missing = {as = "indicator", fill = 30}
[columns.arm]
values = ["a", "b", ""]
[columns.dose]
min = 0
max = 4
missing = "indicator"
"""


@pytest.mark.parametrize("formula", ["y ~ age + arm + dose", "y ~ age*arm + dose"])
def test_missing_cells_are_those_of_a_formula_with_a_filled_column_and_an_indicator(
    formula, tmp_path
):
    draw, count = np.random.default_rng(0), 600
    frame = pd.DataFrame({
        "age": draw.uniform(20, 90, count), "arm": draw.choice(["a", "b", ""], count),
        "dose": draw.uniform(0, 4, count),
    })  # fmt: skip
    holes = draw.random((2, count)) < 0.2
    mean = 4 + 0.02 * (frame.age - 50) + 0.3 * (frame.arm == "b") + holes[0] - 0.1 * frame.dose
    frame["y"] = np.clip(mean + draw.standard_normal(count) / 2, 0, 10)
    filled = frame.assign(
        age=frame.age.where(~holes[0], 30), dose=frame.dose.where(~holes[1], 2),
        age_gone=holes[0] * 1, dose_gone=holes[1] * 1,
    )  # fmt: skip
    frame = frame.assign(age=frame.age.mask(holes[0]), dose=frame.dose.mask(holes[1]))
    product = " + arm:age + arm:age_gone" if "*" in formula else ""
    other = smf.ols(f"y ~ age + age_gone + arm + dose + dose_gone{product}", filled.assign(
        arm=pd.Categorical(filled.arm, ["a", "b", ""])
    )).fit()  # fmt: skip
    found = table_of(tmp_path, frame, MISSING_BOUNDS, formula, "gaussian")
    names = {
        "Intercept": "(intercept)", "age": "age", "age_gone": "age=missing", "arm[T.b]": "arm=b",
        "arm[T.]": "arm=missing", "dose": "dose", "dose_gone": "dose=missing",
        "arm[T.b]:age": "age:arm=b", "arm[T.]:age": "age:arm=missing",
        "arm[T.b]:age_gone": "age=missing:arm=b", "arm[T.]:age_gone": "age=missing:arm=missing",
    }  # fmt: skip
    agrees(found, [names[one] for one in other.params.index], other.params, other.bse)
    notes = json.loads((tmp_path / "out" / "not-private-coefficients.json").read_text())["notes"]
    assert notes == [
        "age=missing is compared with age = 30",
        "dose=missing is compared with dose = 2",
    ]


@pytest.mark.parametrize("family", ["gaussian", "logistic"])
def test_rows_without_a_response_are_left_out_of_estimates_and_errors(family, tmp_path):
    frame = patients(800).assign(y=lambda one: 2 + 0.02 * one.age - 0.3 * (one.arm == "b"))
    draw = np.random.default_rng(1)
    frame["y"] = np.clip(frame.y + draw.standard_normal(800) / 2, 0, 10)
    target, kind = (
        ("y", "min = 0\nmax = 10") if family == "gaussian" else ("event", "values = [0, 1]")
    )
    bounds = (
        f'source = "public"\nignore = ["time", "entry", "{"event" if target == "y" else "y"}"]\n'
    )
    bounds += f'[target]\nname = "{target}"\n{kind}\n'.replace("[0, 1]", '["0", "1"]')
    bounds += TIMES[TIMES.index("[columns.age]") :]
    kept = draw.random(800) < 0.8
    other = getattr(smf, "ols" if family == "gaussian" else "logit")(
        f"{target} ~ age + arm", frame[kept]
    ).fit(cov_type="HC0" if family == "gaussian" else "nonrobust", disp=0)
    with_gaps = frame.assign(**{target: frame[target].astype(object).where(kept, "")})
    found = table_of(tmp_path, with_gaps, bounds, f"{target} ~ age + arm", family, "--leave-out")
    agrees(found, ["(intercept)", "arm=b", "age"], other.params, other.bse)


BINARY = {"values": ["0", "1"]}
TARGETS = {  # and what is named with the family
    "logistic": BINARY,
    "multinomial": {"values": ["a", "b", "c"]},
    "proportional-odds": {"values": ["a", "b", "c"]},
}
NUMBERS = {"negative-binomial": ":0.5", "huber": ":1", "quantile": ":0.5,1"}


def proposed(name, *, leave_out=False, **changes):
    """The proposal of a regression of the family, or one that differs from it."""
    column = {"x": {"min": 0.0, "max": 1.0}, "event": {"values": ["0", "1"]}}
    target = {"name": "y", **TARGETS.get(name, {"min": 1, "max": 9} if name == "gamma"
                                         else {"min": 0, "max": 9})}  # fmt: skip
    bounds = bounds_from_dict({"source": "public", "target": target, "columns": column})
    bounds = dataclasses.replace(bounds, leave_out=leave_out)
    family = FAMILIES[name]
    wanted = RegressionRequest(
        "Surv(y, event) ~ x" if family.survival else "y ~ x", name + NUMBERS.get(name, ""),
        (3.0,) if family.survival else (),
    )  # fmt: skip
    request = Request(epsilon=1.0, delta=1e-5)
    found = dataclasses.replace(regression_request(request, bounds, wanted), **changes)
    return propose(DataFacts.of(bounds), (300, 400), found)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_proposal_of_every_family_is_known_to_end_with_a_table(name):
    """And parties of a study that find none in it would publish none."""
    assert is_regression(proposed(name))
    parts_of(proposed(name))
    assert is_regression(proposed(name, leave_out=name == "gaussian"))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("logistic", {"regulariser": Named(name="l2", numbers=(0.1,))}),
        ("logistic", {"clip": 0.5}),
        ("logistic", {"class_weight": {"0": 0.5, "1": 1.0}}),
        ("logistic", {"features": None}),
        ("logistic", {"features": "bins:4"}),
        ("logistic", {"options": {"covariance": "dispersion"}}),
        ("logistic", {"evaluate": 0.2}),
        ("logistic", {"algorithm": "noisy-gradient", "options": {}}),
        ("gaussian", {"clip": 1.0}),
        ("gaussian", {"options": {"covariance": "model"}}),
        ("gaussian", {"options": {"covariance": "dispersion"}, "leave_out": True}),
    ],
)
def test_a_training_that_differs_from_a_regression_is_none(name, changes):
    """Its standard errors would be those of another likelihood, or of other records."""
    assert not is_regression(proposed(name, **changes))
