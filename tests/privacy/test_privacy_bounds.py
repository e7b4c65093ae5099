import math

import numpy as np
import pytest

from taciturn.errors import InputError
from taciturn.kernel.privacy import (
    Adjacency,
    BoundedChange,
    Messages,
    ReplaceOne,
    SensitivityBound,
    Sum,
    TargetChange,
    ZeroOut,
)
from taciturn.kernel.questions import bound_of
from taciturn.kernel.records import Spec
from taciturn.names import observer_named, relation_named

COUNTS, C, D = (5, 12), 0.7, 4
SPEC = Spec(COUNTS, (D,), record_norm=1.0, gradient_bound=C, smoothness=1.0)
MEAN = {"kind": "mean", "coefficient": C, "row": 1.0}
ORDER = {"l1": 1, "l2": 2}


def bounds(relation, unit, norm):
    found = bound_of(MEAN, SPEC, Adjacency(relation, unit), norm)
    assert found.value.shape == (2, 1, 1)
    return found.value[:, 0, 0]


def gradients(rng, count, norm):
    if norm == "l1":  # sign vectors reach the 1-norm's bound
        raw = rng.choice([-1.0, 1.0], size=(count, D)) * rng.uniform(0.9, 1.0)
    else:
        raw = rng.standard_normal((count, D))
    radius = rng.uniform(0.3, 1, (count, 1)) if rng.random() < 0.5 else 1.0
    return C * radius * raw / np.linalg.norm(raw, axis=1, keepdims=True)


def neighbour(rng, relation, unit, data, norm):
    other = data.copy()
    rows = slice(None) if unit == "agent" else slice(rng.integers(len(data)), None, len(data))
    if isinstance(relation, ZeroOut):
        other[rows] = 0
    elif rng.random() < 0.5:
        other[rows] = -data[rows]
    else:
        other[rows] = gradients(rng, len(data), norm)[rows]
    return other


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("unit", ["record", "agent"])
@pytest.mark.parametrize("relation", [ReplaceOne(), ZeroOut(), BoundedChange(9.0)])
def test_no_neighbouring_data_set_moves_the_mean_further_than_the_bound(relation, unit, norm):
    rng = np.random.default_rng(3)
    for count, bound in zip(COUNTS, bounds(relation, unit, norm), strict=True):
        moves = []
        for _ in range(400):
            data = gradients(rng, count, norm)
            if rng.random() < 0.3:
                data = np.repeat(data[:1], count, axis=0)  # aligned records saturate the agent unit
            other = neighbour(rng, relation, unit, data, norm)
            moves.append(np.linalg.norm(data.mean(0) - other.mean(0), ORDER[norm]))
        assert max(moves) <= bound * (1 + 1e-12)
        assert max(moves) >= 0.9 * bound  # so a bound that is 10 % too small is caught


def test_an_unbounded_gradient_has_an_infinite_bound():
    spec = Spec((3,), (2,), record_norm=1.0, gradient_bound=math.inf, smoothness=1.0)
    facts = {**MEAN, "coefficient": math.inf}
    found = bound_of(facts, spec, Adjacency(ZeroOut(), "record"), "l2")
    assert np.isinf(found.value).all()


def test_the_derivation_says_which_argument_was_used():
    adjacency = Adjacency(BoundedChange(0.1), "record")
    found = bound_of(MEAN, SPEC, adjacency, "l1")
    target = Adjacency(TargetChange(0.1), "record")
    same = bound_of(MEAN, SPEC, target, "l1")
    assert np.array_equal(found.value, same.value)
    assert found.derivation == same.derivation
    assert "special case" in found.derivation
    assert "sqrt(dimension)" in found.derivation
    assert "2c/m_i" in found.derivation


@pytest.mark.parametrize(
    ("value", "norm"),
    [
        (np.full((1, 1, 1), np.nan), "l2"),
        (np.full((1, 1, 1), -1.0), "l2"),
        (np.ones((2, 2)), "l2"),
        (np.ones((1, 1, 1)), "linf"),
    ],
)
@pytest.mark.unchecked
def test_a_malformed_bound_is_refused(value, norm):
    with pytest.raises(InputError):
        SensitivityBound(value, norm, Adjacency(ReplaceOne(), "record"), "by hand")


def test_a_bound_cannot_be_changed_afterwards():
    source = np.ones((1, 1, 1))
    bound = SensitivityBound(source, "l2", Adjacency(ReplaceOne(), "record"), "by hand")
    source[:] = 0
    assert bound.value[0, 0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        bound.value[0, 0, 0] = 0


def test_relations_and_observers_are_found_by_name_and_errors_list_the_names():
    assert relation_named("replace_one") == ReplaceOne()
    assert relation_named("zero_out") == ZeroOut()
    assert observer_named("messages") == Messages()
    assert observer_named("sum") == Sum(colluders=1)
    with pytest.raises(InputError, match="replace_one, zero_out"):
        relation_named("swap")
    with pytest.raises(InputError, match=r"construct .*TargetChange\(beta\)"):
        relation_named("target_change")
    with pytest.raises(InputError, match="messages, sum"):
        observer_named("everyone")


def test_every_relation_describes_each_unit_in_one_sentence():
    for relation in (ReplaceOne(), ZeroOut(), BoundedChange(0.25), TargetChange(0.25, "demand")):
        texts = {Adjacency(relation, unit).describe() for unit in ("record", "agent")}
        assert len(texts) == 2
        assert all(text.endswith(".") and "record" in text for text in texts)
    assert "0.25" in BoundedChange(0.25).describe("record")
    said = TargetChange(0.25, "demand").describe("record")
    assert all(word in said for word in ("target", "demand", "0.25", "features are public"))


@pytest.mark.unchecked
def test_malformed_relations_units_and_observers_are_refused():
    for call in (
        lambda: Adjacency("replace_one", "record"),
        lambda: Adjacency(ReplaceOne(), "user"),
        lambda: BoundedChange(0.0),
        lambda: BoundedChange(math.nan),
        lambda: TargetChange(0.0),
        lambda: TargetChange(math.inf),
        lambda: Sum(colluders=-1),
        lambda: bound_of(MEAN, SPEC, Adjacency(ZeroOut(), "record"), "l3"),
    ):
        with pytest.raises(InputError):
            call()
