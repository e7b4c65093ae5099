"""Losses, regularisers and constraints by their texts."""

import pytest

from taciturn.errors import InputError
from taciturn.problems import (
    L1,
    L2,
    Ball,
    Box,
    ElasticNet,
    HuberHinge,
    Logistic,
    MultinomialLogistic,
    Named,
    NoRegulariser,
    Simplex,
    Squared,
    WholeSpace,
    named,
)


def regulariser_named(text):
    one = Named.parse("regulariser", text)
    return named.regulariser_named(one.name, one.numbers)


def constraint_named(text):
    one = Named.parse("constraint", text)
    return named.constraint_named(one.name, one.numbers)


def loss_named(text, task, classes):
    one = Named.parse("loss", text)
    return named.loss_named(one.name, one.numbers, task, classes)


def test_every_problem_of_the_library_has_a_text():
    assert loss_named("logistic", "binary", 2) == Logistic()
    assert loss_named("hinge:0.5", "binary", 2) == HuberHinge(0.5)
    assert loss_named("multinomial", "multiclass", 4) == MultinomialLogistic(4)
    assert loss_named("squared", "regression", None) == Squared()
    assert regulariser_named("none") == NoRegulariser()
    assert regulariser_named("l1:0.1") == L1(0.1)
    assert regulariser_named("l2:1e-3") == L2(1e-3)
    assert regulariser_named("elastic:1,2") == ElasticNet(1.0, 2.0)
    assert constraint_named("none") == WholeSpace()
    assert constraint_named("box:2") == Box(-2.0, 2.0)
    assert constraint_named("ball:3") == Ball(3.0)
    assert constraint_named("simplex") == Simplex(1.0)


@pytest.mark.parametrize(
    "text", ["", "l3:1", "l1", "l1:", "l1:x", "l1:-1", "l1:nan", "elastic:1", "none:1", "l1:1,2"]
)
def test_a_bad_regulariser_is_refused(text):
    with pytest.raises(InputError, match="regulariser"):
        regulariser_named(text)


@pytest.mark.parametrize("text", ["", "cube", "box", "box:-1", "box:nan", "ball:0", "simplex:2"])
def test_a_bad_constraint_is_refused(text):
    with pytest.raises(InputError, match="constraint"):
        constraint_named(text)


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("logistic", "multiclass"), ("hinge:1", "regression"), ("squared", "binary"),
        ("multinomial", "binary"), ("hinge", "binary"), ("hinge:0", "binary"),
        ("hinge:x", "binary"), ("log", "binary"),
    ],
)  # fmt: skip
def test_a_loss_that_does_not_suit_the_target_is_refused(text, task):
    with pytest.raises(InputError, match="loss"):
        loss_named(text, task, 3)
