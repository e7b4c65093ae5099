"""The exact proximal step and ADMM with exact steps: truth, sensitivity, refusals."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from conftest import ROUNDED, make_shards, make_terms, on_lattice
from taciturn.algorithms import ADMM, at_agents
from taciturn.audit import replace_record, zero_record
from taciturn.engine import run
from taciturn.engine.planning import plan
from taciturn.errors import InputError
from taciturn.kernel.privacy import Adjacency, ReplaceOne, Sum, ZeroOut
from taciturn.kernel.questions import Centre, PerturbedStep, ProximalStep
from taciturn.kernel.records import pack
from taciturn.problems import (
    L1,
    L2,
    Box,
    HuberHinge,
    Logistic,
    MultinomialLogistic,
    NoRegulariser,
    Problem,
    Squared,
    WholeSpace,
    minimise,
    public_facts,
)

NORM, RHO = 1.5, 0.2
LOSSES = [(Logistic(), 1.0), (Logistic(), 0.3), (HuberHinge(0.5), math.inf), (Squared(), 2.0)]


def plain(loss):
    return Problem(loss, NoRegulariser(), WholeSpace())


def step_of(problem, clip, *, tol=1e-12):
    return ProximalStep(problem, clip, RHO, NORM, tol)


def shards_of(loss, seed, records=3):
    draw = np.random.default_rng(seed)
    far = 100.0 if isinstance(loss, Squared) else 1.0
    x, y = draw.standard_normal((records, 2)) * 3, far * np.sign(draw.standard_normal(records))
    return pack(x, y, [np.arange(records)], record_norm=NORM, precision="float64", enforce="clip")


@jax.jit
def exact(oracle, shard, v):
    return oracle.exact(shard, jnp.asarray(3.0), Centre(v))


def answer(oracle, shards, v):
    return np.asarray(exact(oracle, shards.shard(0), jnp.asarray(v)))


def bound(oracle, shards, relation):
    facts = public_facts(oracle.problem, shards, clip=oracle.clip)
    adjacency = Adjacency(relation, "record")
    return oracle.bound(facts, adjacency, norm="l2").value[0, 0, 0]


@pytest.mark.parametrize(("loss", "clip"), LOSSES)
@pytest.mark.parametrize("regulariser", [NoRegulariser(), L2(0.3)])
def test_the_step_solves_its_optimality_condition_to_the_certified_residual(
    loss, clip, regulariser
):
    """An independent root finder on grad f + r' + rho (w - v) = 0, written out in NumPy."""
    shards = shards_of(loss, 0)
    x, y = (np.asarray(part)[0] for part in (shards.stacked.features, shards.stacked.targets))
    v = np.array([0.7, -1.1])
    most = min(clip, loss.lipschitz)

    def slope(w):
        c = np.clip(np.asarray(loss.coefficient(jnp.asarray(x @ w), jnp.asarray(y))), -most, most)
        return x.T @ c / 3 + float(regulariser.strong_convexity) * w + RHO * (w - v)

    truth = optimize.root(slope, v, tol=1e-13).x
    assert np.max(np.abs(slope(truth))) < 1e-10
    oracle = step_of(Problem(loss, regulariser, WholeSpace()), clip)
    np.testing.assert_allclose(answer(oracle, shards, v), truth, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("loss", "clip"), LOSSES)
@pytest.mark.parametrize("tol", [0.5, 1e-9])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**31), size=st.sampled_from([0.0, 1.0, 1e3, 1e300]))
def test_no_neighbour_moves_the_step_beyond_its_bound_however_early_it_stops(
    loss, clip, tol, seed, size
):
    draw = np.random.default_rng(seed)
    oracle, first = step_of(plain(loss), clip, tol=tol), shards_of(loss, seed)
    row = draw.standard_normal(2)
    row *= NORM * (1 - 1e-9) / np.linalg.norm(row)
    second = replace_record(first, 0, 1, row, -float(first.stacked.targets[0, 1]))
    v = draw.standard_normal(2) * size
    moved = np.linalg.norm(answer(oracle, first, v) - answer(oracle, second, v))
    gone = np.linalg.norm(answer(oracle, first, v) - answer(oracle, zero_record(first, 0, 1), v))
    slack = 1e-9 + 1e-13 * size
    assert moved <= bound(oracle, first, ReplaceOne()) + slack
    assert gone <= bound(oracle, first, ZeroOut()) + slack


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge(0.5)])
def test_targets_outside_the_losss_domain_cannot_break_the_bound_of_the_step(loss):
    """The smoothness is enforced, not believed: a target of 1000 would make it 10^6 times that."""
    oracle = ProximalStep(plain(loss), 1.0, 0.5, 1.0)
    most, limit, solve = 0.0, 2 / 20 / 0.5, jax.jit(oracle.exact)
    for seed in range(60):
        draw = np.random.default_rng(seed)
        x, y = draw.standard_normal((21, 2)), 1000 * np.sign(draw.standard_normal(20))
        x /= 1.000001 * np.linalg.norm(x, axis=1, keepdims=True)
        x, row = x[:20], x[20]
        first = pack(x, y, [np.arange(20)], record_norm=1.0, precision="float64", enforce="clip")
        second = replace_record(first, 0, 0, row, -y[0])
        v, count = jnp.asarray(0.1 * draw.standard_normal(2)), jnp.asarray(20.0)
        one, two = (solve(s.shard(0), count, Centre(v)) for s in (first, second))
        most = max(most, float(jnp.linalg.norm(one - two)))
    assert most <= limit * (1 + 1e-9)


def opposite_pair():
    first = replace_record(shards_of(Squared(), 0), 0, 0, np.array([NORM, 0.0]) * (1 - 1e-9), -1e4)
    return first, replace_record(first, 0, 0, np.array([NORM, 0.0]) * (1 - 1e-9), 1e4)


def test_a_saturating_pair_reaches_the_bound_and_a_step_without_clipping_breaks_it():
    first, second = opposite_pair()
    oracle = step_of(plain(Squared()), 2.0)
    limit = bound(oracle, first, ReplaceOne())
    v = np.zeros(2)
    moved = np.linalg.norm(answer(oracle, first, v) - answer(oracle, second, v))
    assert 0.999 * limit <= moved * ROUNDED <= limit * (1 + 1e-9)
    loose = step_of(plain(Squared()), math.inf)
    assert np.linalg.norm(answer(loose, first, v) - answer(loose, second, v)) > 2 * limit


def test_a_regulariser_at_the_agents_lowers_the_bound_by_its_strong_convexity():
    first, _ = opposite_pair()
    ridge = step_of(Problem(Squared(), L2(0.3), WholeSpace()), 2.0)
    ratio = bound(step_of(plain(Squared()), 2.0), first, ReplaceOne()) / bound(
        ridge, first, ReplaceOne()
    )
    assert ratio == pytest.approx((RHO + 0.3) / RHO, rel=1e-6)


def planned(problem, oracle, shards, *, epsilon=math.inf, rounds=200, where="server"):
    return plan(
        public_facts(problem, shards, clip=oracle.clip if epsilon < math.inf else math.inf),
        ADMM(problem, RHO, regulariser_at=where),
        (oracle,),
        make_terms(epsilon),
        rounds=rounds,
        precision="float64",
    )


@pytest.mark.parametrize(
    ("problem", "where"),
    [
        (Problem(Logistic(), L2(0.1), WholeSpace()), "agents"),
        (Problem(Logistic(), L2(0.1), WholeSpace()), "server"),
        (Problem(Logistic(), L1(0.05), Box(-0.3, 0.3)), "server"),
        (Problem(MultinomialLogistic(3), L2(0.1), WholeSpace()), "server"),
    ],
)
def test_without_noise_admm_reaches_the_optimum(problem, where):
    shards = make_shards(agents=3, records=15, features=4, classes=problem.loss.outputs)
    oracle = ProximalStep(at_agents(problem, where), math.inf, RHO, 1.0, 1e-12)
    done = run(
        planned(problem, oracle, shards, rounds=300, where=where), shards, runtime="simulate"
    )
    truth = minimise(problem, shards, tol=1e-10)
    np.testing.assert_allclose(done.model, truth.w, atol=1e-7)


def test_admm_without_its_duals_does_not_pass_as_converged():
    """Law 7's fault: agents ask at the public value alone."""

    class Forgetful(ADMM):
        def ask(self, state, inbox, turn):
            return Centre(inbox)

    problem = Problem(Logistic(), L2(0.1), WholeSpace())
    shards = make_shards(agents=3, records=15, features=4)
    oracle = ProximalStep(at_agents(problem, "server"), math.inf, RHO, 1.0, 1e-12)
    made = plan(
        public_facts(problem, shards, clip=math.inf),
        Forgetful(problem, RHO, regulariser_at="server"),
        (oracle,),
        make_terms(math.inf),
        rounds=300,
        precision="float64",
    )
    done = run(made, shards, runtime="simulate")
    truth = minimise(problem, shards, tol=1e-10)
    assert np.max(np.abs(done.model - np.asarray(truth.w))) > 1e-3


def test_primal_perturbation_spends_an_exact_mu_and_is_not_credited_with_summation():
    problem = Problem(Logistic(), L2(0.1), WholeSpace())
    shards = make_shards(agents=3)
    oracle = ProximalStep(at_agents(problem, "server"), 1.0, RHO, 1.0)
    made = plan(
        public_facts(problem, shards, clip=1.0),
        ADMM(problem, RHO, regulariser_at="server"),
        (oracle,),
        make_terms(observer=Sum()),
        rounds=25,
        precision="float64",
    )
    sensitivity = 2 * 1.0 / (12 * RHO) * ROUNDED
    np.testing.assert_allclose(made.ledger.scale, made.multiplier * sensitivity, rtol=1e-12)
    moved = on_lattice(made.ledger, sensitivity) / sensitivity
    assert made.certificate.mu == pytest.approx(5 * moved / made.multiplier, rel=1e-9)
    assert "private iterates" in made.certificate.trust


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_with_a_regulariser_at_the_agents_both_runtimes_run_under_noise_and_agree(precision):
    """The weight of the regulariser is a number of the program there, which is traced."""
    problem = Problem(Logistic(), L2(0.1), WholeSpace())
    shards = make_shards(agents=3, precision=precision)
    made = plan(
        public_facts(problem, shards, clip=1.0), ADMM(problem, RHO, regulariser_at="agents"),
        (ProximalStep(problem, 1.0, RHO, 1.0),), make_terms(), rounds=3, precision=precision,
    )  # fmt: skip
    models = [run(made, shards, runtime=kind, seed=0).model for kind in ("simulate", "serial")]
    np.testing.assert_allclose(*models, atol=1e-10 if precision == "float64" else 1e-5)
    assert np.all(np.isfinite(run(made, shards, runtime="simulate").model))


def test_an_oracle_for_other_records_or_clips_than_the_facts_is_refused():
    problem = plain(Logistic())
    shards = make_shards(agents=3)
    for clip, norm, words in ((1.0, 2.0, "record norm"), (0.5, 1.0, "same clip")):
        oracle = ProximalStep(problem, clip, RHO, norm)
        with pytest.raises(InputError, match=words):
            plan(
                public_facts(problem, shards, clip=1.0),
                ADMM(problem, RHO, regulariser_at="agents"),
                (oracle,),
                make_terms(),
                rounds=2,
                precision="float64",
            )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ProximalStep(plain(Logistic()), 1.0, 0.0, 1.0), "rho"),
        (lambda: ProximalStep(plain(Logistic()), 1.0, math.nan, 1.0), "rho"),
        (lambda: ProximalStep(plain(MultinomialLogistic(3)), 0.5, 1.0, 1.0), "clip"),
        (
            lambda: PerturbedStep(ProximalStep(plain(MultinomialLogistic(3)), 2.0, 1.0, 1.0)),
            "several margins",
        ),
        (
            lambda: PerturbedStep(
                ProximalStep(Problem(Logistic(), NoRegulariser(), Box(-1.0, 1.0)), 1.0, 1.0, 1.0)
            ),
            "without constraint",
        ),
        (lambda: ADMM(Problem(Logistic(), L2(1.0), Box(-1.0, 1.0)), 1.0, regulariser_at="agents"),
         "constraint"),
    ],
)  # fmt: skip
def test_what_cannot_be_bounded_is_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()
