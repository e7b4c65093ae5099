"""A loss and a clip are stated once: where oracle, method and public facts differ, no plan is made.

Every pair below would otherwise be optimised without a word: something else, or with steps and
noise that belong to something else.
"""

import dataclasses
import re

import jax.numpy as jnp
import numpy as np
import pytest
from tests.attacks.subjects import AskOnce

from conftest import make_shards, make_terms
from taciturn.algorithms import (
    ADMM,
    NIDS,
    SADMM,
    VRADMM,
    LinearisedADMM,
    NoisyGradient,
    variance_reduction,
)
from taciturn.engine.planning import Terms, plan
from taciturn.errors import InputError
from taciturn.kernel.privacy import Adjacency, BoundedChange, Messages, ReplaceOne
from taciturn.kernel.questions import (
    Gradient,
    MinibatchDifference,
    MinibatchGradient,
    PerturbedStep,
    ProjectedStep,
    ProximalStep,
    Residual,
    Statistics,
    TargetGradient,
)
from taciturn.kernel.questions.gradient import Pair
from taciturn.network import metropolis, ring
from taciturn.problems import (
    HuberHinge,
    Logistic,
    MultinomialLogistic,
    Problem,
    Squared,
    fused_lasso,
    public_facts,
)

SHARDS = make_shards()
LOGISTIC, SQUARED = (Problem(loss) for loss in (Logistic(), Squared()))


def step(loss, clip=1.0, norm=1.0):
    return ProximalStep(Problem(loss), clip, 0.5, norm)


def planned(oracle, algorithm=None, *, problem=LOGISTIC, clip=1.0, facts=None, **options):
    oracles = oracle if isinstance(oracle, tuple) else (oracle,)
    return plan(
        facts or public_facts(problem, SHARDS, clip=clip),
        algorithm or NoisyGradient(problem),
        oracles,
        options.pop("terms", None) or make_terms(),
        rounds=5,
        precision="float64",
        multiplier=1e3,  # calibration is another matter
        **options,
    )


CONSENSUS = ADMM(LOGISTIC, 0.5, regulariser_at="server")
TWO_POINTS = Pair(jnp.zeros(3), jnp.zeros(3))
STRUCTURE = fused_lasso(Logistic(), np.array([[0, 1], [1, 2]]), 3, weight=0.1)


def reduced(loss):
    return variance_reduction(loss, clip=1.0, spread=1.0, rate=0.25, inner=4)[0]


@pytest.mark.parametrize(
    ("oracle", "algorithm"),
    [
        (Gradient(Squared(), 1.0), None),
        (MinibatchGradient(Squared(), 1.0, 0.5), None),
        (MinibatchGradient(Squared(), 1.0, 0.5), SADMM(STRUCTURE)),
        (reduced(Squared()), VRADMM(STRUCTURE, inner=4)),
        (ProjectedStep(SQUARED, 1.0), LinearisedADMM(LOGISTIC, arm="output")),
        (step(Squared()), CONSENSUS),
        (PerturbedStep(step(Squared())), CONSENSUS),
        (Statistics(1.0), None),
        (TargetGradient(), None),
        (Residual(12), None),
        ((Gradient(Logistic(), 1.0), Gradient(Squared(), 1.0)), None),
    ],
)
def test_a_question_about_another_loss_than_the_methods_is_refused(oracle, algorithm):
    with pytest.raises(InputError, match="give both the same loss"):
        planned(oracle, algorithm)


def test_a_loss_with_another_parameter_is_another_loss():
    problem = Problem(HuberHinge(0.5))
    planned(Gradient(HuberHinge(0.5), 1.0), problem=problem)
    with pytest.raises(InputError, match="give both the same loss"):
        planned(Gradient(HuberHinge(0.6), 1.0), problem=problem)


def test_without_an_aggregator_the_losses_are_compared_too():
    network = metropolis(ring(4))
    planned(Gradient(Logistic(), 1.0), NIDS(LOGISTIC), network=network)
    with pytest.raises(InputError, match="give both the same loss"):
        planned(Gradient(Squared(), 1.0), NIDS(LOGISTIC), network=network)


@pytest.mark.parametrize(
    ("oracle", "algorithm"),
    [
        (Gradient(Logistic(), 0.5), None),
        (Gradient(Logistic(), 0.5, relative_multiplier=2.0), None),
        (MinibatchGradient(Logistic(), 0.5, 0.5), None),
        (
            MinibatchDifference(Logistic(), 0.5, 0.5, spread=0.5),
            AskOnce(LOGISTIC, TWO_POINTS, (3,)),
        ),
        (ProjectedStep(LOGISTIC, 0.5), LinearisedADMM(LOGISTIC, arm="output")),
        (step(Logistic(), clip=0.5), CONSENSUS),
        (PerturbedStep(step(Logistic(), clip=0.5)), CONSENSUS),
    ],
)
def test_a_clip_other_than_that_of_the_public_facts_is_refused(oracle, algorithm):
    with pytest.raises(InputError, match="give both the same clip"):
        planned(oracle, algorithm)
    planned(oracle, algorithm, clip=0.5)


@pytest.mark.parametrize("wrap", [lambda own: own, PerturbedStep])
def test_a_record_norm_other_than_that_of_the_public_facts_is_refused(wrap):
    with pytest.raises(InputError, match=r"promise record norm 1, \w+ assumes 2"):
        planned(wrap(step(Logistic(), norm=2.0)), CONSENSUS)


@pytest.mark.parametrize("wrap", [lambda own: own, PerturbedStep])
def test_a_proximal_step_of_another_rho_than_the_methods_is_refused(wrap):
    planned(wrap(step(Logistic())), CONSENSUS)
    with pytest.raises(InputError, match=r"has rho 0.5, the algorithm 0.25; give both the same"):
        planned(wrap(step(Logistic())), ADMM(LOGISTIC, 0.25, regulariser_at="server"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gradient_bound": 0.5}, "record gradients of norm 0.5"),
        ({"record_norm": 0.5}, "record gradients of norm 1"),
        ({"smoothness": 1.0}, "Lipschitz constant 1, those of .* have 0.25"),
        ({"shape": (3, 2)}, r"needs \(3,\)"),
    ],
)
def test_public_facts_of_another_problem_are_refused(change, words):
    facts = dataclasses.replace(public_facts(LOGISTIC, SHARDS, clip=1.0), **change)
    with pytest.raises(InputError, match=words):
        planned(Gradient(Logistic(), 1.0), facts=facts)


def test_the_shape_that_a_loss_needs_is_compared_for_classes_too():
    classes = Problem(MultinomialLogistic(3))
    facts = dataclasses.replace(public_facts(classes, SHARDS, clip=1.0), shape=(3,))
    with pytest.raises(InputError, match=r"needs \(3, 3\)"):
        planned(Gradient(MultinomialLogistic(3), 1.0), problem=classes, facts=facts)


@pytest.mark.unchecked
@pytest.mark.parametrize(
    ("adjacency", "observer", "fix"),
    [
        ("replace_one", "messages", 'Adjacency(ReplaceOne(), "record")'),
        (Adjacency(ReplaceOne(), "record"), "messages", "pass Messages() or Sum("),
        ("replace_one", Messages(), 'Adjacency(ReplaceOne(), "record")'),
        (BoundedChange(0.1), Messages(), 'Adjacency(ReplaceOne(), "record")'),
    ],
)
def test_terms_that_are_no_objects_are_refused_with_the_objects_to_pass(adjacency, observer, fix):
    with pytest.raises(InputError, match=re.escape(fix)):
        Terms(1.0, 1e-6, adjacency, observer)
