import itertools
import math
import random

import pytest
from certificate_makers import MEAN, make_answer, make_document, make_leg

from taciturn_verify import verify
from taciturn_verify.bounds import bound_movement, bound_sensitivity
from taciturn_verify.reading import read


def bound(
    question, m=10, relation="replace_one", unit="record", noise="gaussian", values=1, **others
):
    """Return the sensitivity that the verifier finds."""
    terms = {"unit": unit}
    if unit == "person":
        terms |= {"rows_per_person": others.pop("rows", 3), "agents_per_person": 1}
    if relation in ("bounded_change", "target_change"):
        terms["beta"] = 0.5
    leg = make_leg(
        [question], [(1, [make_answer(1.0, 1.0, **others)])], [(1, m)], noise=noise, values=values
    )
    certificate = read(make_document([leg], 1.0, relation=relation, **terms))
    found = certificate.legs[0]
    answer = found.slots[0].answers[0]
    return bound_sensitivity(found, answer, certificate.terms, m)


@pytest.mark.parametrize(("relation", "factor"), [("zero_out", 1), ("replace_one", 2)])
def test_a_mean_moves_as_far_as_its_worst_rows(relation, factor):
    assert bound(MEAN, relation=relation) == pytest.approx(factor * 0.3)


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
def test_derivatives_move_no_further_than_their_bound_and_almost_as_far_in_a_search(relation):
    """Slopes and rank-one matrices within their norms, and squares, over a divisor of their own."""
    slope, bent, squares, draw = 2 * 1.5, 0.7 * 1.5**2, 0.4, random.Random(1)
    question = {"kind": "derivatives", "coefficient": 2.0, "row": 1.5, "weight": 0.7}
    question |= {"divisor": 25.0, "squares": squares}
    most = bound(question, m=10, relation=relation) * 25
    best = 0.0
    for _ in range(20_000):
        turn, other = draw.uniform(0, math.pi), draw.uniform(0, math.pi)
        first = bent * math.cos(turn) ** 2, bent * math.sin(turn) ** 2, bent * math.sin(2 * turn)
        then = bent * math.cos(other) ** 2, bent * math.sin(other) ** 2, bent * math.sin(2 * other)
        if relation == "zero_out":
            moved = math.hypot(slope, first[0], first[1], first[2] / math.sqrt(2), squares)
        else:
            apart = [a - b for a, b in zip(first, then, strict=True)]
            moved = math.hypot(2 * slope, apart[0], apart[1], apart[2] / math.sqrt(2), squares)
        best = max(best, moved)
    assert 0.999 * most <= best <= most * (1 + 1e-9)
    assert bound(question, m=10, relation=relation, unit="agent") * 25 == pytest.approx(10 * most)


@pytest.mark.parametrize(
    ("relation", "target"),
    [("zero_out", 3.0), ("replace_one", 0.7), ("replace_one", 3.0), ("replace_one", 2.0)],
)
def test_moments_move_as_far_as_a_search_finds(relation, target):
    """Second moments of rows in a disc, so weighted that norms agree, and their targets."""
    row, angles = 1.5, [math.pi * i / 24 for i in range(48)]
    points = []
    for angle, radius, share in itertools.product(angles, (1.0, 0.6), (-1.0, 0.0, 1.0)):
        x, y, z = radius * row * math.cos(angle), radius * row * math.sin(angle), share * target
        points.append((x * x, math.sqrt(2) * x * y, y * y, x * z, y * z))
    exact = bound({"kind": "moments", "row": row, "target": target}, relation=relation) * 10
    if relation == "zero_out":
        assert exact == pytest.approx(max(math.hypot(*p) for p in points))
    else:
        found = max(math.dist(p, q) for p in points[::2] for q in points)
        assert 0.9 * exact <= found <= exact + 1e-9


def test_a_tally_moves_one_count_or_two():
    kinds = [[int(i == j) for j in range(4)] for i in range(4)]
    two = max(math.dist(a, b) for a in kinds for b in kinds)
    one = max(sum(abs(x - y) for x, y in zip(a, b, strict=True)) for a in kinds for b in kinds)
    assert bound({"kind": "tally"}) == pytest.approx(two)
    assert bound({"kind": "tally"}, noise="laplace") == pytest.approx(one)
    assert bound({"kind": "tally"}, relation="zero_out") == 1


def test_a_tally_with_offsets_moves_them_too():
    """A term is (e_c, s t e_c, s r) with |t| <= 1/2 and 0 <= r <= 1; the corners move furthest."""
    s = 0.5
    terms = [
        (*(i == c for i in range(2)), *(s * t * (i == c) for i in range(2)), s * r)
        for c in range(2) for t in (-0.5, 0.5) for r in (0, 1)
    ]  # fmt: skip
    zero, question = (0,) * 5, {"kind": "tally", "offsets": s}

    def apart(a, b):
        return sum(abs(x - y) for x, y in zip(a, b, strict=True))

    far = max(math.dist(a, b) for a in terms for b in terms)
    assert bound(question) == pytest.approx(far)
    assert bound(question, relation="zero_out") == pytest.approx(max(math.hypot(*a) for a in terms))
    one = max(apart(a, b) for a in terms for b in terms)
    assert bound(question, noise="laplace") == pytest.approx(one)
    least = max(apart(a, zero) for a in terms)
    assert bound(question, noise="laplace", relation="zero_out") == pytest.approx(least)


def test_counts_move_two_cells_of_every_table():
    question = {"kind": "counts", "tables": 3}
    terms = [[int(i == j) for j in range(2)] * 3 for i in range(2)]
    assert bound(question) == pytest.approx(math.dist(*terms))
    assert bound(question, noise="laplace") == 6
    assert bound(question, relation="zero_out") == pytest.approx(math.sqrt(3))
    assert bound(question, relation="zero_out", noise="laplace") == 3
    persons = question | {"rows_per_person": 3}
    assert bound(persons, unit="person") == pytest.approx(math.sqrt(6))
    assert bound(persons, unit="agent") == pytest.approx(4 * math.sqrt(6))


def test_units_change_as_many_records_as_they_have():
    assert bound(MEAN, unit="agent") == pytest.approx(6.0)
    assert bound(MEAN, unit="person") == pytest.approx(1.8)
    assert bound(MEAN, unit="person", rows=99) == pytest.approx(6.0)
    assert bound({"kind": "errors"}, unit="agent") == pytest.approx(10 * math.sqrt(3))
    assert bound({"kind": "errors", "rows_per_person": 4}, unit="agent", noise="laplace") == 9
    assert bound({"kind": "errors", "rows_per_person": 4}, unit="record", noise="laplace") == 3
    assert bound({"kind": "tally", "rows_per_person": 3}, unit="person") == pytest.approx(
        math.sqrt(2)
    )
    with pytest.raises(ValueError, match="places"):
        bound({"kind": "tally", "rows_per_person": 4}, unit="person")


def test_batches_and_rounding_move_answers_further():
    assert bound(MEAN, rate=0.1) == pytest.approx(6.0)
    assert bound(MEAN, m=20, rate=0.1, batch=2) == pytest.approx(3.0)
    assert bound({**MEAN, "widened": 0.25, "curvature": 0.5}) == pytest.approx(0.6 * 1.25 * 2)
    assert bound(MEAN, noise="laplace", values=9) == pytest.approx(1.8)


@pytest.mark.parametrize(
    ("steps", "unit", "moved"),
    [(2, "agent", 5), (3, "agent", 7), (1, "record", 1), (4, "record", 1)],
)
def test_targets_move_by_what_changes_at_once(steps, unit, moved):
    question = {"kind": "targets", "steps": steps, "targets": 7}
    assert bound(question, relation="target_change", unit=unit) == pytest.approx(
        0.5 * math.sqrt(moved)
    )
    assert bound(question, relation="target_change", unit=unit, noise="laplace") == pytest.approx(
        0.5 * moved
    )


def test_sums_of_targets_move_by_a_row_and_by_rounding():
    question = {"kind": "target sums", "row": 1.5, "target": 4e9}
    assert bound(question, relation="target_change") == pytest.approx(
        0.75 + 2.0**-52 * 120 * 6e9, rel=1e-12
    )


@pytest.mark.parametrize(
    ("relation", "unit", "noise", "question", "batch"),
    [
        ("replace_one", "record", "gaussian", {"kind": "targets", "steps": 1, "targets": 1}, {}),
        ("zero_out", "agent", "gaussian", MEAN, {"rate": 0.5}),
        ("bounded_change", "record", "gaussian", MEAN, {"rate": 0.5}),
        ("zero_out", "record", "gaussian", MEAN, {"rate": 0.5, "batch": 5}),
        ("replace_one", "record", "laplace", MEAN, {"rate": 0.5, "batch": 5}),
        ("replace_one", "record", "laplace", MEAN, {"rate": 0.5}),
        ("replace_one", "record", "gaussian", MEAN, {"rate": 0.4, "batch": 5}),
        ("replace_one", "record", "gaussian", {**MEAN, "curvature": 2.0}, {"rate": 0.5}),
        ("replace_one", "record", "gaussian", {"kind": "tally"}, {"rate": 0.5}),
    ],
)
def test_a_question_that_stands_where_no_bound_holds_is_refused(
    relation, unit, noise, question, batch
):
    moved = bound(question, relation=relation, unit=unit, noise=noise, **batch)
    leg = make_leg(
        [question], [(1, [make_answer(moved, 1.0, **batch)])], [(1, 10)], noise=noise, values=1
    )
    others = {"beta": 0.5} if relation == "bounded_change" else {}
    verdict = verify(make_document([leg], 1.0, relation=relation, unit=unit, **others))
    assert verdict.verdict == "does not follow"
    assert "need" in verdict.reason


def test_answers_on_a_lattice_move_further_by_rounding():
    for others, steps in (({}, 2), ({"rate": 0.5}, 4)):
        leg = make_leg([MEAN], [(1, [make_answer(0.3, 1.0, step=0.01, **others)])], values=9)
        found = read(make_document([leg], 1.0)).legs[0]
        assert bound_movement(found, found.slots[0].answers[0]) == pytest.approx(
            0.3 + steps * 0.01 * 3
        )
