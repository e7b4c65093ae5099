"""Methods in one call: what the short front plans is what the long one does."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import taciturn
from taciturn import engine
from taciturn.algorithms import Composition, NoisyGradient, ServerMethod
from taciturn.audit.subject import PROBLEM, composition_of
from taciturn.datasets import load
from taciturn.errors import InputError
from taciturn.kernel.privacy import Adjacency, Messages, ReplaceOne, Sum, Terms, ZeroOut
from taciturn.kernel.questions import Gradient, MinibatchGradient
from taciturn.network import ring, spanning_tree
from taciturn.problems import L2, Logistic, Named, Problem, minimise, public_facts
from taciturn.problems.losses import MarginLoss
from taciturn.training import DataFacts, Request, propose


@pytest.fixture(scope="module")
def owners():
    return load("breast_cancer").deal(agents=4, seed=0)


@pytest.fixture(scope="module")
def problem():
    return Problem(Logistic(), L2(1e-3))


def short(problem, owners, **settings):
    given = {"epsilon": 4.0, "delta": 1e-4, "rounds": 8} | settings
    return taciturn.plan(problem, owners.facts, **given)


class Plain(ServerMethod):
    def step(self, model, gradient, turn):
        return self.problem.prox(model - 4.0 * gradient, 4.0)


class HeavyBall(ServerMethod):
    def first_public(self, template):
        return template, template  # the model, and the one before it

    def step(self, public, gradient, turn):
        model, before = public
        return self.problem.prox(model - 4.0 * gradient + 0.5 * (model - before), 4.0), model


class Softened(MarginLoss):
    """log(1 + exp(-y z)), whose slope is found by differentiation."""

    smoothness = 0.25

    def value(self, margins, targets):
        return jnp.logaddexp(0.0, -targets * margins)


def test_the_short_plan_is_the_long_one(problem, owners):
    shards = owners.shards("float32")
    long = engine.plan(
        public_facts(problem, shards, clip=0.5), NoisyGradient(problem),
        (Gradient(problem.loss, clip=0.5),),
        Terms(4.0, 1e-4, Adjacency(ReplaceOne(), "record"), Messages()), rounds=8,
        precision="float32",
    )  # fmt: skip
    assert short(problem, owners).to_dict() == long.to_dict()


@pytest.mark.parametrize(
    "name",
    ["noisy-gradient", "pvp", *(pytest.param(n, marks=pytest.mark.slow) for n in (
        "dp-admm", "linearised-admm", "dp-sgd"
    ))],
)  # fmt: skip
def test_what_a_name_plans_is_what_the_command_line_plans(name, owners):
    data = DataFacts(
        name="breast_cancer", task="binary", classes=2, columns=30, record_norm=1.0, table=None
    )
    logistic = Named(name="logistic", numbers=())
    request = Request(epsilon=4.0, delta=1e-4, algorithm=name, rounds=8, loss=logistic)
    proposal = propose(data, owners.facts.counts, request, dealt=True)
    same = Problem(Logistic(), L2(1e-6))
    assert short(same, owners, method=name).digest == proposal.plan().digest


def test_defaults_are_what_protects_most(problem, owners):
    terms = short(problem, owners).terms
    assert terms.adjacency == Adjacency(ReplaceOne(), "record")
    assert terms.observer == Messages()
    assert terms == Terms(4.0, 1e-4)


def test_relations_and_observers_are_named_or_given(problem, owners):
    named = short(problem, owners, relation="zero_out", observer="sum")
    given = short(problem, owners, relation=ZeroOut(), observer=Sum(colluders=1))
    assert named.digest == given.digest
    assert named.certificate.observer == "sum"


def test_a_budget_has_no_default(problem, owners):
    with pytest.raises(TypeError, match="epsilon"):
        taciturn.plan(problem, owners.facts, delta=1e-4)


def test_without_privacy_no_delta_is_needed(problem, owners):
    quiet = taciturn.plan(problem, owners.facts, epsilon=np.inf, rounds=2)
    assert quiet.certificate.epsilon == np.inf
    with pytest.raises(InputError, match="delta"):
        taciturn.plan(problem, owners.facts, epsilon=1.0, rounds=2)


def test_planning_reads_no_record(problem, owners):
    hidden = owners.facts
    assert hidden == (owners.facts.counts, 30, 1.0, True)
    assert taciturn.plan(problem, hidden, epsilon=4.0, delta=1e-4, rounds=8).rounds == 8


def test_a_run_is_that_of_the_engine(problem, owners):
    planned = short(problem, owners)
    first = planned.run(owners, seed=3)
    again = engine.run(planned, owners.shards("float32"), runtime="simulate", seed=3)
    np.testing.assert_array_equal(first.model, again.model)
    conditions = load("breast_cancer").conditions
    assert first.certificate == again.certificate.under(conditions, conditional=False)
    assert set(conditions) <= set(first.certificate.conditions)
    assert first.trace.models.shape == (8, 30)


def test_records_dealt_in_secret_are_certified_and_those_of_a_seed_stamped(problem):
    dataset = load("breast_cancer")
    secret, seeded = dataset.deal(agents=4), dataset.deal(agents=4, seed=0)
    planned = short(problem, secret)
    assert not planned.run(secret).certificate.reproduction
    assert planned.run(seeded).certificate.reproduction


def test_private_data_draw_their_test_records(problem):
    private = dataclasses.replace(load("breast_cancer"), public=False)
    first, again = private.deal(agents=2), private.deal(agents=2)
    assert not np.array_equal(first.test_targets, again.test_targets) or not np.array_equal(
        first.test_features, again.test_features
    )
    one = dataclasses.replace(load("breast_cancer"), public=False).deal(agents=1, seed=0)
    assert short(problem, one).run(one).certificate.reproduction


def test_records_with_owners_are_not_dealt():
    rows = (np.arange(100), np.arange(100, 455))
    owned = dataclasses.replace(load("breast_cancer"), owners=rows)
    with pytest.raises(InputError, match="have 2 owners; leave agents out"):
        owned.deal(agents=4)
    with pytest.raises(InputError, match="have no owners; give agents"):
        load("breast_cancer").deal()
    assert owned.deal().facts.counts == (100, 355)
    assert not owned.deal().facts.dealt


def test_a_method_runs_along_a_tree(problem, owners):
    star = short(problem, owners)
    tree = short(problem, owners, network=spanning_tree(ring(4)))
    assert tree.certificate.epsilon == star.certificate.epsilon


def test_a_method_of_ones_own_is_one_class_with_one_step(problem, owners):
    planned = short(problem, owners, method=Plain, rounds=60)
    result = planned.run(owners, seed=0)
    assert result.certificate.conditional  # it shares the process with the records
    shards = owners.shards("float64")
    start, optimum = problem.objective(jnp.zeros(30), shards), minimise(problem, shards).value
    assert problem.objective(jnp.asarray(result.model, jnp.float64), shards) < start
    quiet = short(problem, owners, method=Plain, rounds=2000, epsilon=np.inf).run(owners)
    gap = problem.objective(jnp.asarray(quiet.model, jnp.float64), shards) - optimum
    assert 0 <= gap < 0.01 * (start - optimum)


def test_a_step_may_remember_more_than_the_model(problem, owners):
    quiet = short(problem, owners, method=HeavyBall, epsilon=np.inf, precision="float64")
    run = quiet.run(owners)
    shards, model = owners.shards("float64"), np.zeros(30)
    before = model
    for released in run.trace.models:
        ahead = (
            model
            - 4.0 * np.asarray(problem.gradient(jnp.asarray(model), shards))
            + (model - before) / 2
        )
        model, before = ahead / (1 + 4.0 * 1e-3), model  # the proximal map of L2(1e-3)
        np.testing.assert_allclose(released, model, rtol=1e-9, atol=1e-12)


def test_a_schedule_may_be_a_list_and_has_a_value_for_each_round(problem, owners):
    class Halved(taciturn.ServerMethod):
        length = 3

        def schedule(self, spec, rounds, noise):
            return {"step": [0.5] * self.length}

        def step(self, model, gradient, turn):
            return model - turn.values["step"] * gradient

    class Short(Halved):
        length = 1

    planned = short(problem, owners, method=Halved, rounds=3)
    assert planned.schedules["step"].tolist() == [0.5] * 3
    with pytest.raises(InputError, match=r"schedule 'step' has shape \(1,\); give \(3,\)"):
        short(problem, owners, method=Short, rounds=3)


def test_a_function_may_bring_its_own_questions(problem, owners):
    def mine(problem):
        return Composition(NoisyGradient(problem), (Gradient(problem.loss, 0.25),))

    assert short(problem, owners, method=mine, clip=0.25).certificate.epsilon <= 4.0
    with pytest.raises(InputError):  # the questions enforce another bound than the facts state
        short(problem, owners, method=mine)


def test_a_loss_needs_no_slope(owners):
    plain, mine = Problem(Logistic()), Problem(Softened())
    with_slope = short(plain, owners, precision="float64").run(owners, seed=1)
    without = short(mine, owners, clip=0.5, precision="float64").run(owners, seed=1)
    np.testing.assert_allclose(without.model, with_slope.model, atol=1e-12)
    assert not np.array_equal(without.model, np.zeros(30))


@pytest.mark.slow
def test_compare_measures_what_single_runs_are(problem, owners):
    table = taciturn.compare(
        problem, owners, ["noisy-gradient", Plain], epsilons=[1.0, 4.0], delta=1e-4, rounds=5,
        seeds=[2, 7],
    )  # fmt: skip
    assert list(table.columns) == ["method", "epsilon", "seed", "round", "gap", "test_error"]
    assert len(table) == 2 * 2 * 2 * 5
    alone = short(problem, owners, rounds=5, epsilon=1.0, precision="float64").run(owners, seed=7)
    shards = owners.shards("float64")
    gap = problem.objective(jnp.asarray(alone.model), shards) - minimise(problem, shards).value
    error = np.mean(problem.predict(alone.model, owners.test_features) != owners.test_targets)
    row = table.query("method == 'noisy-gradient' and epsilon == 1 and seed == 7 and round == 5")
    np.testing.assert_allclose(row[["gap", "test_error"]].to_numpy(), [[gap, error]], atol=1e-10)
    assert set(table["method"]) == {"noisy-gradient", "Plain"}


@pytest.mark.slow
def test_compare_names_every_curve(problem, owners):
    given = {"epsilons": [4.0], "delta": 1e-4, "rounds": 2, "seeds": [0]}
    curves = {str(rho): {"method": "dp-admm", "rho": rho} for rho in (0.1, 1.0)}
    table = taciturn.compare(problem, owners, curves, **given)
    assert table["method"].tolist() == ["0.1", "0.1", "1.0", "1.0"]
    assert table["gap"][1] != table["gap"][3]
    for wrong in ("dp-admm", [Plain, Plain]):
        with pytest.raises(InputError, match=r"list|mapping"):
            taciturn.compare(problem, owners, wrong, **given)


def test_checks_ask_the_questions_that_a_method_states():
    class OnBatches(Plain):
        def oracles(self, clip):
            return (MinibatchGradient(self.problem.loss, clip, 0.5),)

    algorithm, oracles = composition_of(OnBatches)
    assert isinstance(algorithm, OnBatches)
    assert oracles == (MinibatchGradient(PROBLEM.loss, 1.0, 0.5),)
