"""What the certificate of an estimator says, and that no record can break it."""

import dataclasses
import inspect
import math
import pickle
import warnings
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.certificates import stated
from taciturn.errors import PrivacyError, PrivacyWarning, PublicFactsWarning, UtilityWarning
from taciturn.estimators import (
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSVC,
)
from taciturn.estimators.ranges import Ranges
from taciturn.kernel.privacy import Certificate
from taciturn.kernel.questions import Point
from taciturn.kernel.records import pack
from taciturn.training import training

BUDGET = {"epsilon": 1.0, "delta": 1e-5, "rounds": 10}
LABELS = {"classes": [0, 1]}


def records(rows=50, columns=3):
    draw = np.random.default_rng(0)
    x = draw.uniform(0, 1, (rows, columns))
    return x, (x[:, 0] > 0.5).astype(int)


def epsilon_of(mu, delta):
    """Return epsilon of a Gaussian mechanism (Balle and Wang 2018), by root finding."""

    def excess(epsilon):
        tail = norm.logcdf(-mu / 2 - epsilon / mu) + epsilon
        return norm.cdf(mu / 2 - epsilon / mu) - math.exp(tail) - delta

    return brentq(excess, 0, 100, xtol=1e-12)


@pytest.mark.parametrize(("relation", "times"), [("replace_one", 2), ("zero_out", 1)])
def test_the_certificate_is_what_the_noise_of_the_plan_costs(relation, times):
    x, y = records()
    model = PrivateLogisticRegression(**BUDGET, **LABELS, bounds=(0, 1), relation=relation)
    model.fit(x, y, agents=[1] * 20 + [2] * 30)
    sensitivity = times * 0.5 * math.sqrt(3 + 1) / np.array([20, 30])
    scale = np.asarray(model.plan_.program.scales).reshape(10, 2)
    steps = np.moveaxis(model.plan_.ledger.step, 0, -1).reshape(10, 2)
    moved = sensitivity + 2 * steps * math.sqrt(4)  # rounded to the lattice of the noise
    mu = np.sqrt(np.sum((moved / scale) ** 2, axis=0)).max()
    assert model.certificate_.mu == pytest.approx(mu, rel=1e-9)
    assert model.certificate_.epsilon == pytest.approx(epsilon_of(mu, 1e-5), rel=1e-6)
    assert 0.999 < model.certificate_.epsilon <= 1.0
    assert model.certificate_.relation == relation
    assert model.certificate_.observer == "messages"


def test_a_seeded_fit_is_a_reproduction_and_an_unseeded_one_is_fresh():
    x, y = records()
    model = PrivateLogisticRegression(**BUDGET, **LABELS, bounds=(0, 1))
    fresh = [model.fit(x, y).coef_ for _ in range(2)]
    assert not np.array_equal(*fresh)
    assert not model.certificate_.reproduction
    model.set_params(random_state=3)
    repeated = [model.fit(x, y).coef_ for _ in range(2)]
    np.testing.assert_array_equal(*repeated)
    assert model.certificate_.reproduction
    assert "reproduction, not private" in model.certificate_.lines()[0]


@pytest.mark.parametrize(
    ("kind", "given", "setting"),
    [
        (PrivateLogisticRegression, LABELS, "bounds"),
        (PrivateSVC, {"bounds": (0, 1)}, "classes"),
        (PrivateLinearRegression, {"bounds": (0, 1)}, "target_bounds"),
    ],
)
def test_a_fact_read_off_the_records_warns_and_makes_the_certificate_conditional(
    kind, given, setting
):
    model = kind(**BUDGET, **given)
    with pytest.warns(PublicFactsWarning, match=f"pass {setting}=") as seen:
        # the checker of annotations would stand between this line and the warning
        inspect.unwrap(kind.fit)(model, *records())
    told = [warning for warning in seen if issubclass(warning.category, PrivacyWarning)]
    assert len(told) == 1
    assert {warning.filename for warning in seen} == {__file__}
    assert model.certificate_.conditional
    assert model.certificate_.lines()[0].startswith("Conditional")
    said = [line for line in model.certificate_.conditions if "read off the records" in line]
    assert len(said) == 1
    assert f"{setting}=None" in said[0]


def test_facts_that_are_given_make_no_warning_and_are_named_as_declared():
    # warnings are errors in this suite
    first = PrivateLogisticRegression(**BUDGET, **LABELS, bounds=(0, 1)).fit(*records())
    second = PrivateLinearRegression(**BUDGET, bounds=(0, 1), target_bounds=(0, 1)).fit(*records())
    for model in (first, second):
        assert len(model.certificate_.conditions) == 4
        assert not model.certificate_.conditional
        assert not any("read off" in line for line in model.certificate_.conditions)


def certificates(thing, seen):
    """Return every certificate that is reachable from an object."""
    if id(thing) in seen or isinstance(thing, (str, bytes, int, float, np.ndarray, type)):
        return []
    seen[id(thing)] = thing  # kept, so that its number is not used again
    inside = [*getattr(thing, "__dict__", {}).values()]
    if isinstance(thing, Mapping):
        inside += thing.values()
    elif isinstance(thing, (list, tuple, set, frozenset)):
        inside += thing
    found = [thing] if isinstance(thing, Certificate) else []
    return found + [one for part in inside for one in certificates(part, seen)]


def test_nothing_reachable_from_a_fit_shows_a_certificate_without_its_conditions_or_stamp():
    model = PrivateLinearRegression(**BUDGET, random_state=1)
    with pytest.warns(PublicFactsWarning):
        model.fit(*records())
    reached = certificates(model, {})
    assert model.plan_.certificate in reached
    assert any(one is model.certificate_ for one in reached)
    for one in (*reached, pickle.loads(pickle.dumps(model)).plan_.certificate):
        assert one == model.certificate_
        assert one.reproduction
        assert one.conditional
        assert one.attacker_tpr == 1.0
        assert len(one.conditions) == 4
    assert model.plan_.to_dict()["certificate"] == stated(model.certificate_)


def test_bounds_read_off_the_records_are_their_least_and_largest_values():
    x, y = records()
    x[:, 2] = 7.0
    with pytest.warns(PublicFactsWarning):
        model = PrivateLogisticRegression(**BUDGET, **LABELS).fit(x, y)
    np.testing.assert_array_equal(model.bounds_[0], x.min(axis=0))
    np.testing.assert_array_equal(model.bounds_[1][:2], x.max(axis=0)[:2])
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        (PrivateLogisticRegression, LABELS),
        (PrivateLinearRegression, {"target_bounds": (0, 1)}),
    ],
)
def test_a_fit_that_the_model_0_is_expected_to_beat_warns_and_others_do_not(kind, facts):
    x, y = records()
    poor = {**BUDGET, "epsilon": 0.01, "bounds": (0, 1), "rounds": 5}
    with pytest.warns(UtilityWarning, match="the model 0, which knows no record"):
        kind(**poor, **facts).fit(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UtilityWarning)
        kind(**{**poor, "epsilon": 1000.0}, **facts).fit(x, y)
        kind(**{**poor, "epsilon": math.inf}, **facts).fit(x, y)


def shards_of(monkeypatch, model, x, y, agents=None):
    """Return the plan of a fit and the shards that it was about to run on."""
    seen = []

    class SeenError(Exception):
        pass

    def spy(made, shards, **_):
        seen.append((made, shards))
        raise SeenError

    with monkeypatch.context() as patch:
        patch.setattr(training, "run", spy)
        with pytest.raises(SeenError):
            model.fit(x, y, agents=agents)
    return seen[0]


MODELS = [
    PrivateLogisticRegression(**BUDGET, **LABELS, bounds=(0, 1)),
    PrivateLogisticRegression(**BUDGET, classes=[0, 1, 2], bounds=(0, 1)),
    PrivateSVC(**BUDGET, **LABELS, bounds=(0, 1)),
    PrivateLinearRegression(**BUDGET, bounds=(0, 1), target_bounds=(0, 1)),
]


def moved(monkeypatch, model):
    """Return how far wild records move the exact gradient, as a fraction of the planned bound."""
    draw, (x, y), most = np.random.default_rng(1), records(), 0.0
    sides = []
    for wild, label in ((1e6, 0), (1e6, 1), (-1e6, 1), (0.5, 0)):
        x[0], y[0] = wild, label
        sides.append(shards_of(monkeypatch, model, x, y))
    made = sides[0][0]
    oracle, shape = made.program.oracles[0], made.spec.shape
    for query in (np.zeros(shape), *draw.standard_normal((5, *shape)) * 10):
        point = Point(jnp.asarray(query))
        answers = [oracle.exact(one.shard(0), jnp.asarray(50.0), point) for _, one in sides]
        gaps = [jnp.linalg.norm(a - b) for a in answers for b in answers]
        most = max(most, float(max(gaps)))
    return most / float(made.ledger.sensitivity.max())


@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{type(m).__name__}")
def test_no_record_moves_a_gradient_beyond_the_planned_bound_however_wild(monkeypatch, model):
    assert 0.7 < moved(monkeypatch, model) <= 1 + 1e-9


def unclipped(self, rows):
    return rows


def unguarded(*args, record_norm, **rest):
    """`pack` without its own bound on norms."""
    return dataclasses.replace(PACK(*args, record_norm=1e30, **rest), record_norm=record_norm)


PACK = pack


def test_an_estimator_that_forgets_to_clip_is_caught(monkeypatch):
    model, (x, y) = MODELS[0], records()
    x[0] = 1e6
    monkeypatch.setattr(Ranges, "clipped", unclipped)
    assert Ranges(np.zeros(3), np.ones(3)).encoded(x).max() == 2e6 - 1
    # packing bounds the norm once more, so this fault alone costs accuracy and no privacy
    assert moved(monkeypatch, model) <= 1 + 1e-9
    monkeypatch.setattr("taciturn.training.records.pack", unguarded)
    assert moved(monkeypatch, model) > 1000
    with pytest.raises(PrivacyError, match="norm above 2"):
        model.fit(x, y)


def test_encoded_cells_lie_between_minus_1_and_1_to_the_last_bit():
    draw = np.random.default_rng(0)
    low = draw.standard_normal(200) * 10.0 ** draw.integers(-8, 8, 200)
    high = low + np.abs(low) * 10.0 ** draw.integers(-6, 3, 200)
    rows = np.concatenate([low + (high - low) * draw.uniform(-1, 2, (50, 200)), [low, high]])
    cells = Ranges(low, high).encoded(rows)
    assert np.abs(cells).max() <= 1
    np.testing.assert_array_equal(cells[-2, :-1], -1.0)
    np.testing.assert_array_equal(cells[-1], 1.0)


def test_a_warning_that_is_an_error_loses_no_fit_that_was_charged(tmp_path, monkeypatch):
    monkeypatch.setenv("TACITURN_STATE_DIR", str(tmp_path / "state"))
    account = open_account("books", Guarantee(9.0, 1e-2), AccountTerms(), folder=tmp_path)
    rows = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    model = PrivateLogisticRegression(
        epsilon=0.5, delta=5e-3, bounds=(-1, 1), classes=[0, 1], rounds=3, account=account
    )  # at this delta, and at this risk, there are warnings
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with pytest.raises((PrivacyWarning, UtilityWarning)):
            model.fit(rows, np.arange(60) % 2)
    assert account.state().charged[0].status == "released"
    assert np.isfinite(model.coef_).all()
    assert model.certificate_.epsilon <= 0.5


def test_with_public_classes_a_fit_does_not_tell_that_only_one_of_them_occurs():
    x, y = records()
    model = PrivateLogisticRegression(**BUDGET, **LABELS, bounds=(0, 1)).fit(x, 0 * y)
    assert model.classes_.tolist() == [0, 1]
