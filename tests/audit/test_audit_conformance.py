"""The conformance kit: every method and oracle passes it, and it sees planted faults."""

import dataclasses

import numpy as np
import pytest
from typing_extensions import override

from tacit.algorithms import METHODS, Composition, NoisyGradient
from tacit.audit import check_method, check_oracle
from tacit.errors import InputError
from tacit.oracles import Centre, Gradient, MinibatchGradient, ProximalStep, Statistics
from tacit.problems import HuberHinge, Logistic, NoRegulariser, Problem, Squared, WholeSpace


class HalfTheBound(Gradient):
    """Planted fault: says that an answer moves half as far as it does."""

    @override
    def bound(self, spec, adjacency, **settings):
        honest = super().bound(spec, adjacency, **settings)
        return dataclasses.replace(honest, value=honest.value / 2)


class Unclipped(Gradient):
    """Planted fault: answers with the gradient as it is."""

    @override
    def exact(self, shard, count, query):
        coefficient = self.loss.coefficient(shard.features @ query.x, shard.targets)
        return (coefficient * shard.mask) @ shard.features / count


class TooLargeSteps(NoisyGradient):
    """Planted fault: steps at which the iteration diverges."""

    @override
    def schedule(self, spec, rounds, noise):
        honest = super().schedule(spec, rounds, noise)
        return {**honest, "step_size": honest["step_size"] * 50}


def test_a_method_of_the_table_passes():
    report = check_method("noisy-gradient", runs=200)
    assert report.passes, report
    assert {law.outcome for law in report.laws} == {"holds"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in METHODS if name != "noisy-gradient"])
def test_every_method_of_the_table_passes(name):
    report = check_method(name)
    assert report.passes, report


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Squared(), Logistic(), HuberHinge(0.5)], ids=repr)
def test_the_gradient_passes_and_the_search_comes_close_to_its_bound(loss):
    report = check_oracle(Gradient(loss, min(1.0, loss.lipschitz)))
    assert report.passes, report
    assert "reached 1.000" in str(report) or "reached 0.9" in str(report)


@pytest.mark.slow
@pytest.mark.parametrize(
    "oracle",
    [
        MinibatchGradient(Squared(), 1.0, 0.5),
        Statistics(1.0),
    ],
    ids=lambda oracle: type(oracle).__name__,
)
def test_other_oracles_pass(oracle):
    report = check_oracle(oracle)
    assert report.passes, report


@pytest.mark.slow
def test_a_question_of_another_form_is_asked_with_its_query():
    problem = Problem(Squared(), NoRegulariser(), WholeSpace())
    report = check_oracle(ProximalStep(problem, 1.0, 0.5, 1.0), query=Centre, trials=200)
    assert report.passes, report


@pytest.mark.parametrize("oracle", [HalfTheBound(Squared(), 1.0), Unclipped(Squared(), 1.0)])
def test_a_broken_oracle_is_seen(oracle):
    report = check_oracle(oracle)
    assert set(report.violated) == {"sensitivity, replace_one", "sensitivity, zero_out"}


@pytest.mark.slow
def test_a_method_with_a_broken_question_is_seen_by_replay():
    def broken(problem):
        return Composition(NoisyGradient(problem), (Unclipped(problem.loss, 1.0),))

    assert "replay" in check_method(broken, runs=50, rounds=50).violated


def test_a_method_that_diverges_is_seen_by_convergence():
    assert "convergence" in check_method(TooLargeSteps, runs=50, rounds=50).violated


def test_what_makes_no_algorithm_is_refused():
    with pytest.raises(InputError, match="must make an Algorithm"):
        check_method(lambda problem: np.zeros(3))
