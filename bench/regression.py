"""One question against many on linear regression: excess risk at equal total budgets."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from tacit.algorithms import NoisyGradient, OneQuestion
from tacit.door import Live
from tacit.oracles import Gradient, Statistics
from tacit.plan import Plan, Terms, plan
from tacit.privacy import Adjacency, Messages, ReplaceOne
from tacit.problems import L2, Problem, Shards, Squared, WholeSpace, minimise, pack, public_facts
from tacit.program import stack
from tacit.runtime import behind_the_door, sweep

AGENTS, RECORDS, FEATURES, SEEDS = 10, 400, 10, 50
PROBLEM = Problem(Squared(), L2(1e-6), WholeSpace())


def regression_risks() -> dict[str, dict[str, float]]:
    """Return the mean excess risk over noise, 10 agents with 400 records of 10 features each.

    |x| <= 1, |y| <= 1, delta 1e-5, replace-one, messages; features alike in size, or falling from
    1 to 0.1. The clip at 1 is the bound on targets; at 0.5 it presumes smaller residuals.
    """
    table: dict[str, dict[str, float]] = {}
    for name, smallest, norm in (("alike", 1.0, 1.6), ("falling", 0.1, 0.8)):
        shards = _data(smallest, norm)
        best = minimise(PROBLEM, shards, tol=1e-8).value
        for epsilon in (0.3, 1.0, 3.0, 10.0):
            terms = Terms(epsilon, 1e-5, Adjacency(ReplaceOne(), "record"), Messages())
            arms = {"one question": _one_question(shards, terms)} | {
                f"{rounds} rounds, clip {clip:g}": _gradient(shards, terms, rounds, clip)
                for rounds in (20, 200)
                for clip in (0.5, 1.0)
            }
            risks = {arm: _excess(made, shards, best) for arm, made in arms.items()}
            table[f"features {name}, epsilon {epsilon:g}"] = risks
    return table


def _data(smallest: float, norm: float) -> Shards:
    draw = np.random.default_rng(0)
    x = draw.standard_normal((AGENTS * RECORDS, FEATURES)) * np.geomspace(1, smallest, FEATURES)
    x *= draw.uniform(0.5, 1, (len(x), 1)) / np.linalg.norm(x, axis=1, keepdims=True)
    w = draw.standard_normal(FEATURES)
    y = x @ (w * norm / np.linalg.norm(w)) + 0.1 * draw.standard_normal(len(x))
    parts = np.split(np.arange(len(x)), AGENTS)
    return pack(x, np.clip(y, -1, 1), parts, record_norm=1.0, precision="float64", enforce="clip")


def _one_question(shards: Shards, terms: Terms) -> Plan:
    facts = public_facts(PROBLEM, shards, clip=math.inf)
    oracles = (Statistics(1.0),)
    return plan(facts, OneQuestion(PROBLEM), oracles, terms, rounds=1, precision="float64")


def _gradient(shards: Shards, terms: Terms, rounds: int, clip: float) -> Plan:
    facts = public_facts(PROBLEM, shards, clip=clip)
    oracles = (Gradient(PROBLEM.loss, clip),)
    return plan(facts, NoisyGradient(PROBLEM), oracles, terms, rounds=rounds, precision="float64")


def _excess(made: Plan, shards: Shards, best: float) -> float:
    program = made.program
    doors = Live(program.oracles, program.mechanism, jax.random.split(jax.random.key(0), SEEDS))
    models, _ = sweep(stack([program]), doors, behind_the_door(made, shards), keep=frozenset())
    values = jax.vmap(lambda w: PROBLEM.objective(w, shards))(models[0])
    return float(jnp.mean(values)) - best
