"""Budgets and step sizes of each agent: what they cost, and that less noise is caught."""

import dataclasses
import functools
import json
import math

import jax.numpy as jnp
import numpy as np
import pytest

from conftest import make_shards
from taciturn.algorithms import RECAL, LinearisedADMM
from taciturn.certificates import document_of
from taciturn.engine import plan, run
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel.privacy import (
    Adjacency,
    Laplace,
    Messages,
    ReplaceOne,
    Sum,
    Terms,
    compose,
    epsilon_of,
)
from taciturn.kernel.questions import Gradient
from taciturn.network import ring, uniform_walk
from taciturn.problems import L2, Logistic, Problem, minimise, public_facts
from taciturn_verify.judging import verify

BUDGETS = (2.0, 1.0, 0.25, 0.5)
ROUNDS = 24
SHARDS = make_shards(agents=4, records=15, features=3, seed=1)
PROBLEM = Problem(Logistic(), L2(0.05))
QUESTIONS = (Gradient(Logistic(), 1.0),)
WALK = uniform_walk(ring(4), ROUNDS, seed=3)
FACTS = public_facts(PROBLEM, SHARDS, clip=1.0)


def terms(epsilon=2.0, observer=None):
    return Terms(epsilon, 1e-5, Adjacency(ReplaceOne(), "record"), observer or Messages())


@functools.cache
def uneven():
    """The plan of uneven budgets on a relay, shared by tests that only read it."""
    return planned(BUDGETS)


def planned(budgets=BUDGETS, algorithm=None, **changed):
    given = {"rounds": ROUNDS, "precision": "float64", "network": WALK, "terms": terms()} | changed
    facts = given.pop("facts", FACTS)
    method = RECAL(PROBLEM) if algorithm is None else algorithm
    return plan(facts, method, QUESTIONS, given.pop("terms"), agent_epsilons=budgets, **given)


def of_document(made):
    document = {**document_of(made.certificate), "conditions": [], "statement": []}
    return json.loads(json.dumps(document))


def test_each_agent_spends_its_budget_on_its_own_answers():
    made = uneven()
    spent = np.array(made.certificate.per_agent_epsilon)
    assert np.all(spent <= BUDGETS)
    assert spent == pytest.approx(BUDGETS, rel=1e-5)
    assert made.certificate.epsilon == max(spent)
    counts = np.sum(made.ledger.asked, axis=(1, 2))
    assert len(set(counts.tolist())) > 1
    # from the number of answers alone, by the curve of Gaussian noise
    moves = made.bounds[0].value[:, 0, 0]
    for agent, (count, budget) in enumerate(zip(counts, BUDGETS, strict=True)):
        scale = float(np.max(made.ledger.scale[agent]))
        mu = math.sqrt(count) * moves[agent] / scale
        assert epsilon_of(1e-5, mu) == pytest.approx(budget, rel=1e-4)


def test_equal_budgets_on_a_star_are_the_plan_of_one_budget():
    algorithm = LinearisedADMM(PROBLEM)
    both = (planned(each, algorithm, network=None) for each in ((2.0,) * 4, None))
    scales = [made.ledger.scale for made in both]
    np.testing.assert_allclose(*scales, rtol=1e-12)


@pytest.mark.parametrize("law", [None, Laplace()])
def test_budgets_hold_for_every_law_of_the_noise(law):
    made = planned(algorithm=LinearisedADMM(PROBLEM), network=None, mechanism=law, rounds=3)
    spent = made.certificate.per_agent_epsilon
    assert all(one <= budget for one, budget in zip(spent, BUDGETS, strict=True))
    assert spent == pytest.approx(BUDGETS, rel=1e-4)


def with_noise(made, agent, factor):
    """The plan with the noise of one agent multiplied, in the ledger and in what runs."""
    scale = made.ledger.scale.copy()
    scale[agent] *= factor
    return dataclasses.replace(made.ledger, scale=scale)


@pytest.mark.parametrize("agent", range(4))
def test_half_of_the_noise_of_any_agent_exceeds_its_budget(agent):
    made = uneven()
    leg = dataclasses.replace(made.leg, ledger=with_noise(made, agent, 0.5))
    spent = compose((leg,), made.terms).certificate().per_agent_epsilon
    assert spent[agent] > 1.9 * BUDGETS[agent]
    others = [k for k in range(4) if k != agent]
    assert [spent[k] for k in others] == pytest.approx([BUDGETS[k] for k in others], rel=1e-5)


def test_a_run_with_half_of_the_noise_of_one_agent_releases_nothing():
    made = uneven()
    holder = int(WALK.holders[0])
    scales = made.program.scales
    halved = scales.at[jnp.asarray(np.flatnonzero(WALK.holders == holder))].multiply(0.5)
    short = dataclasses.replace(made, program=dataclasses.replace(made.program, scales=halved))
    with pytest.raises(PrivacyError, match=f"agent {holder}"):
        run(short, SHARDS, runtime="simulate", seed=0)


def test_a_verifier_accepts_the_certificate_of_uneven_budgets():
    made = uneven()
    verdict = verify(of_document(made))
    assert verdict.verdict == "follows", verdict.reason


def lower_claim(document):
    document["claim"]["per_agent_epsilon"][0] /= 2


def exchange_claims(document):
    each = document["claim"]["per_agent_epsilon"]
    each[2], each[3] = each[3], each[2]


def name_the_mean(document):
    each = document["claim"]["per_agent_epsilon"]
    document["claim"]["epsilon"] = sum(each) / len(each)


def halve_noise(document):
    for slot in document["legs"][0]["slots"]:
        for answer in slot["answers"]:
            if answer["agents"] == [[2, 2]]:
                answer["scale"] /= 2
                answer["step"] /= 2


@pytest.mark.parametrize("alter", [lower_claim, exchange_claims, name_the_mean, halve_noise])
def test_a_verifier_refuses_an_altered_budget_of_an_agent(alter):
    document = of_document(uneven())
    alter(document)
    assert verify(document).verdict == "does not follow"


@pytest.mark.parametrize(
    ("budgets", "changed", "why"),
    [
        ((2.0, 1.0), {}, "give one for each"),
        ((1.0, 1.0, 1.0, 1.0), {}, "make them equal"),
        ((2.0, 1.0, 0.0, 0.5), {}, "must be above 0"),
        ((2.0, 1.0, math.nan, 0.5), {}, "must be"),
        (BUDGETS, {"terms": terms(observer=Sum(1))}, "observer messages"),
        (BUDGETS, {"facts": dataclasses.replace(FACTS, dealt=True)}, "give each agent its own"),
    ],
)
def test_budgets_that_cannot_be_kept_are_refused(budgets, changed, why):
    with pytest.raises(InputError, match=why):
        planned(budgets, **changed)


def test_step_sizes_of_each_agent_reach_the_optimum():
    walk = uniform_walk(ring(4), 6000, seed=0)
    limit, _ = RECAL(PROBLEM, objective_scale=1.0).limit(FACTS)
    steps = tuple(share * limit for share in (0.9, 0.3, 0.6, 0.45))
    algorithm = RECAL(PROBLEM, objective_scale=1.0, agent_steps=steps)
    quiet = terms(math.inf)
    made = planned(None, algorithm, rounds=6000, network=walk, terms=quiet)
    np.testing.assert_array_equal(made.schedules["step_size"][:, 0], steps)
    model = run(made, SHARDS, runtime="simulate", seed=0).model
    least = minimise(PROBLEM, SHARDS).value
    assert float(PROBLEM.objective(jnp.asarray(model), SHARDS)) - least < 1e-8 * least


@pytest.mark.parametrize("steps", [(0.1, 0.1), (0.1, 0.1, 0.1, 100.0)])
def test_step_sizes_beyond_the_limit_of_an_agent_are_refused(steps):
    with pytest.raises(InputError, match="step size"):
        planned(None, RECAL(PROBLEM, agent_steps=steps))
