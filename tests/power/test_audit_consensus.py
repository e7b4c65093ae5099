"""General-form consensus under attack: likelihood ratio, residuals, replay, for every question."""

import dataclasses
import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import attacked_mu, computed
from taciturn.audit import replay, residual_report
from taciturn.engine.planning import plan
from taciturn.kernel.door.door import Private
from taciturn.kernel.privacy import Adjacency, Messages, TargetChange, Terms, epsilon_of
from taciturn.kernel.questions import Residual, TargetGradient, Targets
from taciturn.kernel.records import Shard, Spec
from taciturn_power.conic import (
    AgentSets,
    polyhedron,
)
from taciturn_power.methods import (
    GeneralConsensus,
    lifts,
    shared_coordinates,
)

ORACLES = {"gradient": TargetGradient(), "residual": Residual(2), "targets": Targets(2)}
MU, BETA, DELTA = 1.5, 0.1, 1e-5


def attacked(question, average):
    """Two agents with two equations each; the neighbour moves the longest row's target by beta."""
    draw = np.random.default_rng(0)
    features = draw.standard_normal((2, 2, 2))
    norms = np.linalg.norm(features, axis=2)
    box = polyhedron(A=np.vstack([np.eye(2), -np.eye(2)]), b=np.full(4, 5.0))
    norm = float(norms.max()) * (1 + 1e-12)
    spec = Spec((2, 2), (2,), norm, math.inf, 1.0)
    method = GeneralConsensus(
        sharing=shared_coordinates([np.array([0, 1]), np.array([1, 2])], 3),
        features=jnp.asarray(features), lift=jnp.asarray(lifts(features)),
        sets=AgentSets([box, box], [x.T @ x for x in features]),
        first=jnp.zeros(3), rho=1.0, proximal_weight=0.1, question=question, average=average,
        updates=1,
    )  # fmt: skip
    terms = Terms(
        float(epsilon_of(DELTA, MU)), DELTA, Adjacency(TargetChange(BETA), "record"), Messages()
    )
    made = plan(spec, method, (ORACLES[question],), terms, rounds=2, precision="float64")
    targets = jnp.asarray(draw.standard_normal((2, 2)))
    where = np.unravel_index(norms.argmax(), norms.shape)
    sides = [
        Private(Shard(jnp.asarray(features), t, jnp.ones((2, 2))), jnp.full(2, 2.0))
        for t in (targets, targets.at[where].add(BETA))
    ]
    return made, sides


ARMS = [(q, a) for q in ("gradient", "residual") for a in (True, False)] + [("targets", True)]


@pytest.mark.slow
@pytest.mark.parametrize("question", ["residual", "targets"])
def test_the_likelihood_attack_stays_below_the_certificate_and_comes_close(question):
    made, (first, second) = attacked(question, average=True)
    program = made.program

    assert 0.9 < attacked_mu(program, first, second) <= made.certificate.mu


@pytest.mark.slow
@pytest.mark.parametrize(("question", "average"), ARMS)
def test_replay_messages_and_residuals_hold_for_every_arm(question, average):
    made, (first, second) = attacked(question, average)

    program = made.program
    _, trace = computed(program, first, seed=5, keep=frozenset({"answers", "messages"}))
    seen = replay(made, program.oracles, trace, first, second)
    assert seen.bounds_hold
    assert seen.messages_hold
    assert seen.realised_mu == pytest.approx(MU, rel=1e-6)
    asked = np.moveaxis(made.ledger.asked, 0, -1)
    answers = np.asarray(trace.records.answer)[asked][None, :, None]
    exact, scale = seen.exact[asked][None, :, None], np.asarray(trace.records.scale)[asked]
    report = residual_report(
        answers, exact, scale[None, :, None], made.program.mechanism, level=1e-3
    )
    assert report.passes


class Clear(GeneralConsensus):
    """Planted fault: what is sent carries something that no answer told."""

    def send(self, state, inbox, turn):
        state, message = super().send(state, inbox, turn)
        return state, message + 1e-3 * turn.scale * jnp.arange(message.shape[0])


class Louder(Residual):
    """Planted fault: an answer that moves twice as far as its bound says."""

    def exact(self, shard, count, query):
        return 2 * super().exact(shard, count, query)


def test_a_message_of_more_than_answers_and_a_wrong_bound_are_seen():
    made, (first, second) = attacked("residual", average=True)
    program = made.program
    fields = {name: getattr(program.algorithm, name) for name in vars(program.algorithm)}
    keep = frozenset({"answers", "messages"})
    leaking = eqx.tree_at(lambda p: p.algorithm, program, Clear(**fields))
    _, trace = computed(leaking, first, seed=5, keep=keep)
    assert not replay(made, program.oracles, trace, first, second).messages_hold
    loud = (Louder(2),)
    louder = dataclasses.replace(program, oracles=loud)
    _, trace = computed(louder, first, seed=5, keep=keep)
    assert replay(made, loud, trace, first, second).worst_ratio == pytest.approx(2, rel=1e-9)
