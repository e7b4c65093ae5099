"""Laws 3, 7, 9 and 10 for the linearised ADMM, and Algorithm 3.1 of Ryu & Kim as printed."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from conftest import ROUNDED, just_below, make_shards, make_terms, on_lattice
from taciturn.algorithms import LinearisedADMM, PublicSettings
from taciturn.engine import run
from taciturn.engine.planning import plan
from taciturn.errors import InputError
from taciturn.kernel.privacy import Laplace
from taciturn.kernel.questions import Gradient, ProjectedStep
from taciturn.kernel.records import pack
from taciturn.problems import (
    L1,
    L2,
    Ball,
    Box,
    ElasticNet,
    HuberHinge,
    Logistic,
    MultinomialLogistic,
    NoRegulariser,
    Problem,
    minimise,
    public_facts,
)
from taciturn.training import Request

ARMS = ["objective", "output", "projected-output"]
ZOO = {
    "box": Problem(Logistic(), NoRegulariser(), Box(-0.3, 0.3)),
    "elastic-box": Problem(HuberHinge(0.5), ElasticNet(0.01, 0.1), Box(-0.3, 0.3)),
    "ball": Problem(Logistic(), L2(0.01), Ball(0.4)),
    "classes": Problem(MultinomialLogistic(3), L2(0.1), Box(-0.2, 0.2)),
}


def question(algorithm, clip):
    problem = algorithm.problem
    if algorithm.arm == "objective":
        return Gradient(problem.loss, clip)
    return ProjectedStep(problem, clip)


def planned(algorithm, shards, terms, rounds, clip=1.0, mechanism=None):
    return plan(
        public_facts(algorithm.problem, shards, clip=clip),
        algorithm,
        (question(algorithm, clip),),
        terms,
        rounds=rounds,
        precision="float64",
        mechanism=mechanism,
    )


def noiseless(algorithm, shards, rounds):
    made = planned(algorithm, shards, make_terms(math.inf), rounds, clip=math.inf)
    return run(made, shards, runtime="simulate", keep=frozenset({"models", "messages", "publics"}))


def gap_of(problem, shards, model, truth):
    return float(problem.objective(jnp.asarray(model), shards)) - truth.value


def zoo(name):
    problem = ZOO[name]
    shards = make_shards(agents=3, records=15, features=4, seed=2, classes=problem.loss.outputs)
    return problem, shards, minimise(problem, shards, tol=1e-10)


@pytest.mark.parametrize(
    ("name", "updates"), [("box", 5), ("elastic-box", 1), ("ball", 1), ("classes", 5)]
)
def test_without_noise_it_reaches_the_constrained_optimum(name, updates):
    problem, shards, truth = zoo(name)
    done = noiseless(LinearisedADMM(problem, updates), shards, 1000)
    assert abs(gap_of(problem, shards, done.model, truth)) <= 1e-8 * abs(truth.value)
    np.testing.assert_allclose(done.model, truth.w, atol=1e-4)


class WrongProx(LinearisedADMM):
    """Planted: the regulariser acts at twice the step."""

    def tell(self, state, inbox, turn, answer):
        twice = {**turn.values, "rho": turn.values["rho"] / 2}
        twice["inverse_step"] = turn.values["inverse_step"] / 2
        free = super().tell(state, inbox, turn, answer)
        step = 1 / (twice["rho"] + twice["inverse_step"])
        return free._replace(iterate=self.problem.prox(free.iterate, step))


def test_a_wrong_prox_does_not_pass_as_converged():
    problem, shards, truth = zoo("elastic-box")
    done = noiseless(WrongProx(problem, 1), shards, 1000)
    assert gap_of(problem, shards, done.model, truth) > 1e-4 * truth.value


def small_box(epsilon):
    """One run of each arm in a small box, with what was sent."""
    problem, shards = Problem(Logistic(), NoRegulariser(), Box(-0.05, 0.05)), make_shards(agents=3)
    made = {arm: planned(LinearisedADMM(problem, 3, arm), shards, make_terms(epsilon), 8)
            for arm in ARMS}  # fmt: skip
    keep = frozenset({"messages"})
    return {
        arm: run(one, shards, runtime="simulate", seed=1, keep=keep) for arm, one in made.items()
    }


@pytest.fixture(scope="module")
def tight():
    return small_box(1.0)


@pytest.mark.slow
def test_without_noise_the_arms_are_one(tight):
    assert np.ptp([done.model for done in tight.values()], axis=0).max() > 1e-3
    # the same compiled programs
    first, *others = (done.model for done in small_box(math.inf).values())
    for other in others:
        np.testing.assert_allclose(other, first, atol=1e-12)


@pytest.mark.parametrize("arm", ARMS)
def test_every_update_is_a_question_in_the_ledger(tight, arm):
    done, rounds, updates = tight[arm], 8, 3
    assert done.ledger.kind.shape == (3, rounds, updates)
    assert int(np.sum(done.ledger.asked[0])) == rounds * updates
    # law 1 with m = 12 records of norm 1 whose coefficient is at most 1; a step is rounded
    sensitivity = 2 / 12 * (1 if arm == "objective" else ROUNDED)
    np.testing.assert_allclose(done.ledger.sensitivity, sensitivity, rtol=1e-12)
    moved = on_lattice(done.ledger, sensitivity)
    mu = math.sqrt(rounds * updates) * moved / done.ledger.scale[0, 0, 0]
    assert done.certificate.mu == pytest.approx(mu, rel=1e-12)
    assert just_below(done.certificate.epsilon, 1.0)


def test_all_arms_have_equal_gradient_noise_but_for_the_rounding_of_steps(tight):
    scales = {arm: done.ledger.scale for arm, done in tight.items()}
    np.testing.assert_array_equal(scales["output"], scales["projected-output"])
    np.testing.assert_allclose(scales["output"], scales["objective"] * ROUNDED, rtol=1e-12)


def test_objective_solutions_are_feasible_and_output_solutions_are_not(tight):
    for arm, done in tight.items():
        outside = float(np.max(np.abs(np.asarray(done.trace.messages.solution)))) - 0.05
        if arm == "output":
            assert outside > 0.01
        else:
            assert outside <= 1e-9
            assert np.max(np.abs(done.model)) <= 0.05 + 1e-9


@pytest.mark.slow
def test_the_two_runtimes_agree_and_the_seed_fixes_the_bits():
    shards = ragged()
    problem = Problem(MultinomialLogistic(3), L1(0.01), Box(-0.2, 0.2))
    algorithm = LinearisedADMM(problem, 2, "output", weighting="records")
    made = planned(algorithm, shards, make_terms(5.0), 3)
    kinds = ("simulate", "serial", "simulate")
    models = [run(made, shards, runtime=kind, seed=3).model for kind in kinds]
    np.testing.assert_allclose(models[0], models[1], rtol=0, atol=1e-10)
    np.testing.assert_array_equal(models[0], models[2])


def ragged():
    draw = np.random.default_rng(1)
    x, y = draw.standard_normal((20, 4)), draw.integers(0, 3, 20)
    parts = [np.arange(3), np.arange(3, 12), np.arange(12, 20)]
    return pack(x, y, parts, record_norm=1.0, precision="float64", enforce="clip")


def test_summation_is_never_credited_since_questions_are_asked_at_private_iterates():
    from taciturn.engine.credit import credits_summation

    made = planned(LinearisedADMM(ZOO["box"]), make_shards(), make_terms(1.0), 3)
    assert not credits_summation(made.program)


@pytest.mark.slow
def test_weights_by_records_make_the_objective_the_mean_over_all_records():
    shards = ragged()
    problem = Problem(MultinomialLogistic(3), L2(0.1), Box(-0.5, 0.5))
    rows, labels = np.asarray(shards.stacked.features), np.asarray(shards.stacked.targets)
    real = np.asarray(shards.stacked.mask) > 0
    pooled = pack(
        rows[real], labels[real], [np.arange(20)],
        record_norm=1.0, precision="float64", enforce="clip",
    )  # fmt: skip
    truth = minimise(problem, pooled, tol=1e-10)
    done = noiseless(LinearisedADMM(problem, 2, "output", weighting="records"), shards, 1000)
    np.testing.assert_allclose(done.model, truth.w, atol=1e-7)


@pytest.mark.slow
def test_a_laplace_arm_keeps_its_bound_and_budget():
    """OutL: pure differential privacy in the 1-norm."""
    shards = make_shards(agents=3, features=4)
    algorithm = LinearisedADMM(ZOO["box"], 2, "output")
    made = planned(algorithm, shards, make_terms(5.0), 4, mechanism=Laplace())
    done = run(made, shards, runtime="simulate", seed=0)
    np.testing.assert_allclose(done.ledger.sensitivity, math.sqrt(4) * 2 / 12 * ROUNDED)
    assert done.certificate.mu is None
    assert 4.9 < done.certificate.epsilon <= 5.0


def test_public_settings_reach_the_horizon_they_name():
    shards = make_shards(agents=4, records=40, features=3)
    for updates in (1, 5):
        algorithm = LinearisedADMM(ZOO["box"], updates, settings=PublicSettings(0.5))
        made = planned(algorithm, shards, make_terms(0.1), 50)
        values, n = made.schedules, 50 * updates
        c = values["rho"][0] + values["inverse_step"][0]
        nu = made.ledger.scale[0, 0, 0] / 2  # the mean of four
        assert c == pytest.approx(math.sqrt(n) * nu)
        assert values["rho"][0] / values["inverse_step"][0] == pytest.approx(0.5 / updates)


def test_settings_out_of_range_are_refused():
    with pytest.raises(InputError, match="local_updates"):
        LinearisedADMM(ZOO["box"], 0)
    with pytest.raises(InputError, match=r"has no option local-updates.*linearised-admm"):
        Request(epsilon=1.0, delta=1e-3, options={"local_updates": 2})
    with pytest.raises(InputError, match="local-updates"):
        Request(epsilon=1.0, delta=1e-3, algorithm="linearised-admm", options={"local_updates": 0})
