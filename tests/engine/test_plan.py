"""Planning: the budget is spent exactly, from public facts, and nothing unsound is credited."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typing_extensions import override

from conftest import just_below, make_algorithm, make_plan, make_shards, make_terms, packed, plan_of
from taciturn.algorithms import DPADMM, NoisyGradient
from taciturn.calibration import mu_of
from taciturn.engine.credit import credits_summation
from taciturn.errors import InputError
from taciturn.kernel.privacy import Adjacency, Laplace, Messages, ReplaceOne, Sum, Terms, account
from taciturn.problems import L1, Ball, Logistic, NoRegulariser, Problem, Squared


@pytest.mark.parametrize("name", ["noisy-gradient", "dp-admm"])
@pytest.mark.parametrize("epsilon", [0.05, 0.75, 8.0])
def test_the_whole_budget_is_spent_and_no_more(name, epsilon, shards):
    made = make_plan(name, shards, terms=make_terms(epsilon))
    assert just_below(made.certificate.epsilon, epsilon)
    assert just_below(made.certificate.mu, mu_of(epsilon, 1e-5))


def test_noise_follows_each_agents_own_record_count():
    draw = np.random.default_rng(0)
    x, y = draw.standard_normal((10, 2)), np.sign(draw.standard_normal(10))
    made = make_plan("noisy-gradient", packed(x, y, [np.arange(2), np.arange(2, 10)]))
    np.testing.assert_allclose(made.ledger.scale[0], 4 * made.ledger.scale[1], rtol=1e-12)
    assert len(set(np.round(made.certificate.per_agent_epsilon, 9))) == 1


def test_summation_lets_honest_agents_share_the_noise(shards):
    alone = make_plan("noisy-gradient", shards, terms=make_terms()).ledger.scale
    summed = make_plan(
        "noisy-gradient", shards, terms=make_terms(observer=Sum(colluders=1))
    ).ledger.scale
    np.testing.assert_allclose(alone / summed, math.sqrt(shards.agents - 1), rtol=1e-12)


class KeepsItsIterate(NoisyGradient):
    """Planted: asks at the agent's own last answer."""

    @override
    def ask(self, state, inbox, turn):
        return super().ask(state, inbox, turn)._replace(x=state)


class SendsOldAnswers(NoisyGradient):
    """Planted: the message carries last round's answer too."""

    @override
    def tell(self, state, inbox, turn, answer):
        return answer + 0.1 * state


class SendsClippedAnswers(NoisyGradient):
    """Planted: the message is not an affine function of the answer."""

    @override
    def send(self, state, inbox, turn):
        return state, jnp.clip(state, -1, 1)


def sends(change):
    """Return an algorithm whose message is `change` of the answer."""

    class Sends(NoisyGradient):
        @override
        def send(self, state, inbox, turn):
            return state, change(state)

        @override
        def combine(self, public, mean_message, turn):
            return super().combine(public, jnp.ravel(mean_message)[: public.query.size], turn)

    return Sends


NOT_AFFINE = [
    jnp.sign,
    jnp.round,
    jnp.tanh,
    lambda answer: jnp.where(answer > 0, 1.0, -1.0),
    lambda answer: jnp.tanh(jax.lax.stop_gradient(answer)),
    lambda answer: answer.astype(jnp.bfloat16).astype(answer.dtype),
    lambda answer: answer * answer,
    lambda answer: 1 / answer,
    lambda answer: jnp.linalg.norm(answer) * jnp.ones_like(answer),
    jnp.sort,
]


@pytest.mark.parametrize("change", NOT_AFFINE)
def test_messages_that_are_not_affine_are_not_credited_even_where_their_derivative_vanishes(
    change, shards
):
    problem = Problem(Logistic())
    program = make_plan("noisy-gradient", shards).program
    assert not credits_summation(dataclasses.replace(program, algorithm=sends(change)(problem)))


AFFINE = [
    lambda answer: -answer / 4 + 1,
    lambda answer: answer[::-1].reshape(1, -1),
    lambda answer: jnp.concatenate([answer, jnp.zeros(2)]),
    lambda answer: jnp.eye(3) @ answer,
    jax.jit(lambda answer: 2 * answer),
]


@pytest.mark.parametrize("change", AFFINE)
def test_affine_messages_are_credited(change, shards):
    problem = Problem(Logistic())
    program = make_plan("noisy-gradient", shards).program
    assert credits_summation(dataclasses.replace(program, algorithm=sends(change)(problem)))


class WeighsByIdentity(NoisyGradient):
    """Planted: agents weigh their answers differently."""

    @override
    def send(self, state, inbox, turn):
        return state, state * (1 + turn.agent)


class ScalesPublicly(NoisyGradient):
    """Sound: a public, common, affine change of the answer."""

    @override
    def send(self, state, inbox, turn):
        return state, 2 * state - inbox.iterate


@pytest.mark.parametrize(
    ("kind", "credited"),
    [
        (NoisyGradient, True), (ScalesPublicly, True), (KeepsItsIterate, False),
        (SendsOldAnswers, False), (SendsClippedAnswers, False), (WeighsByIdentity, False),
    ],
)  # fmt: skip
def test_credit_for_summation_is_decided_by_tracing(kind, credited, shards):
    problem = Problem(Logistic())
    program = make_plan("noisy-gradient", shards).program
    changed = dataclasses.replace(program, algorithm=kind(problem))
    assert credits_summation(changed) is credited


def test_infinite_epsilon_runs_without_noise_and_says_so(shards):
    made = make_plan("noisy-gradient", shards, terms=make_terms(math.inf))
    assert np.all(made.ledger.scale == 0)
    assert made.certificate.epsilon == math.inf
    assert any("no privacy" in line for line in made.certificate.lines())


def test_an_unbounded_gradient_is_refused_unless_epsilon_is_infinite(shards):
    problem = Problem(Squared())
    with pytest.raises(InputError, match="clip"):
        make_plan("noisy-gradient", shards, problem=problem, clip=math.inf)
    free = make_terms(math.inf)
    made = make_plan("noisy-gradient", shards, problem=problem, clip=math.inf, terms=free)
    assert made.certificate.epsilon == math.inf


@pytest.mark.parametrize("rounds", [0, -3, 1.5])
@pytest.mark.unchecked
def test_impossible_round_counts_are_refused(rounds, shards):
    with pytest.raises(InputError, match="rounds"):
        make_plan("noisy-gradient", shards, rounds=rounds)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, 1e-5), (math.nan, 1e-5), (1, 0), (1, 1), (1, math.nan), (-1, 0.1)]
)
def test_impossible_budgets_are_refused(epsilon, delta):
    with pytest.raises(InputError):
        Terms(epsilon, delta, Adjacency(ReplaceOne(), "record"), Messages())


def test_laplace_answers_are_calibrated_by_the_accountant(shards):
    problem = Problem(Logistic())
    made = plan_of(
        make_algorithm("noisy-gradient", problem), shards, None, make_terms(2.0), clip=0.5,
        rounds=4, mechanism=Laplace(),
    )  # fmt: skip
    assert made.certificate.mu is None
    spent = account(made.ledger.events_by_agent()[0], delta=1e-5, relation=ReplaceOne()).epsilon
    assert spent <= 2.0
    assert made.certificate.epsilon == pytest.approx(2.0, rel=1e-3)
    sensitivity = 2 * 0.5 * math.sqrt(3) / 12  # 2 c / m in L1, by sqrt(d)
    np.testing.assert_allclose(made.ledger.sensitivity, sensitivity, rtol=1e-12)


def test_laplace_answers_under_summation_are_certified_for_every_message(shards):
    problem = Problem(Logistic())
    made = plan_of(
        make_algorithm("noisy-gradient", problem), shards, None, make_terms(2.0, observer=Sum()),
        clip=0.5, rounds=4, mechanism=Laplace(),
    )  # fmt: skip
    assert made.certificate.observer == "sum"
    assert made.certificate.epsilon <= 2.0


@pytest.mark.parametrize("epsilon", [1e7, 1e300])
def test_an_epsilon_that_protects_nothing_must_be_called_infinite(epsilon):
    with pytest.raises(InputError, match="inf"):
        make_terms(epsilon)


def test_more_answers_than_memory_holds_are_refused(shards):
    with pytest.raises(InputError, match="fewer rounds"):
        make_plan("noisy-gradient", shards, rounds=10**11)


def test_plans_see_no_data():
    """Two data sets with the same public facts have the same plan."""
    first, second = make_shards(seed=0), make_shards(seed=1)
    assert make_plan("dp-admm", first).digest == make_plan("dp-admm", second).digest


def test_published_dp_admm_refuses_a_constraint_and_a_nonsmooth_regulariser_its_smooth_rule(shards):
    with pytest.raises(InputError, match="server"):
        make_algorithm("dp-admm-published", Problem(Logistic(), NoRegulariser(), Ball(1.0)))
    problem = Problem(Logistic(), L1(0.1))
    algorithm = DPADMM(problem, rho=0.1, radius=1.0, step_rule="smooth", regulariser_at="agents")
    with pytest.raises(InputError, match="other rule"):
        plan_of(algorithm, shards, rounds=2)
