"""What one agent learns of another: reach and exact values against perturbed runs."""

import dataclasses
import itertools
import math
import sys
from types import SimpleNamespace
from unittest.mock import patch

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import make_shards, make_terms
from taciturn.algorithms import EXTRA, NIDS, RECAL
from taciturn.audit import pairwise_mu
from taciturn.audit.pairwise import rounds_that_reach
from taciturn.engine import compute
from taciturn.engine.planning import plan
from taciturn.engine.running import records_for_door
from taciturn.errors import InputError
from taciturn.kernel.door.door import Door, Live
from taciturn.kernel.privacy import Adjacency, Messages, NoNoise, TargetChange, Terms
from taciturn.kernel.questions import Gradient, TargetGradient
from taciturn.kernel.records import pack
from taciturn.network import Graph, Walk, cyclic_walk, metropolis, path, ring
from taciturn.problems import (
    L2,
    Logistic,
    NoRegulariser,
    Problem,
    Squared,
    WholeSpace,
    public_facts,
)
from taciturn.report.results import between_agents
from taciturn.training import DataFacts, Request, propose
from taciturn.training.request import NetworkRequest
from taciturn_papers.exact_pairwise import pairwise_mu_affine, row_space, unit_answers
from taciturn_papers.methods import RWADMM

BETA, SLOPES = 0.5, (6.33, 6.07, 4.78, 7.34)
OTHER_PATH = Graph(4, np.array([(0, 1), (1, 3), (3, 2)]))


class Nudged(Door):
    """A live door that adds 1 to the answer of one agent in one round."""

    live: Live
    at: jax.Array
    by: float = eqx.field(static=True, default=1.0)

    def __call__(self, queries, turn, chance):
        answer, record = self.live(queries, turn, chance)
        here = (turn.agent == self.at[0]) & (turn.round == self.at[1]) & (turn.question >= 0)
        return jnp.where(here[:, None], answer + self.by, answer), record


def run_of(made, shards):
    """Return the messages and the model of the noiseless run, with one answer nudged."""
    quiet = dataclasses.replace(made.program, mechanism=NoNoise())

    @jax.jit
    def sent(private, at):
        door = Nudged(Live(quiet.oracles, quiet.mechanism, private), at)
        model, trace = compute(quiet, door, keep=frozenset({"messages"}))
        leaves = [leaf.reshape(*leaf.shape[:2], -1) for leaf in jax.tree.leaves(trace.messages)]
        return jnp.concatenate(leaves, axis=-1), model

    private = records_for_door(made, shards)
    return lambda at, behind=private: tuple(np.asarray(x) for x in sent(behind, jnp.array(at)))


def heard(name, network, messages, agent):
    if name == "told":
        return told(network, messages, agent)
    if name == "gossip":
        near = [np.setdiff1d(edge, agent) for edge in network.graph.edges if agent in edge]
        return messages[:, np.concatenate(near)].ravel()
    hops = [hop - 1 for hop, holder in enumerate(network.holders) if hop and holder == agent]
    return messages[hops].ravel()


def told(walk, messages, agent):
    """What neighbours tell after they were asked: their model, and their dual on the edge."""
    edges, size = walk.graph.edges, 3
    duals = messages[:, 0, walk.graph.agents * size :].reshape(len(messages), -1, size)
    words = []
    for hop, asked in enumerate(walk.holders):
        for edge, ends in enumerate(edges):
            if {asked, agent} == set(ends.tolist()):
                words += [messages[hop, 0, asked * size : (asked + 1) * size]]
                words += [duals[hop, 2 * edge + ends.tolist().index(asked)]]
    return np.concatenate(words)


def shown_of(made, choice=None):
    return SimpleNamespace(plan=made, certificate=made.certificate, choice=choice)


NETWORKS = {
    "told": (Walk(ring(4), np.array([0, 3, 2, 1, 2, 1, 2])), RWADMM, 7, {}),
    "gossip": (metropolis(path(4)), EXTRA, 5, {}),
    "relay": (cyclic_walk(ring(4), 9), RECAL, 9, {"objective_scale": 1.0}),
}


@pytest.mark.unchecked  # the page is given no more of a training than it reads
@pytest.mark.parametrize("name", NETWORKS)
def test_exactly_the_answers_that_can_reach_an_agent_move_what_it_hears(name):
    network, method, rounds, settings = NETWORKS[name]
    shards, problem = make_shards(), Problem(Logistic(), L2(0.1), WholeSpace())
    made = plan(
        public_facts(problem, shards, clip=1.0), method(problem, **settings),
        (Gradient(problem.loss, 1.0),), make_terms(), rounds=rounds, precision="float64",
        network=network,
    )  # fmt: skip
    sent = run_of(made, shards)
    still, _ = sent((-1, -1))
    moved = np.zeros((4, 4, rounds), bool)
    for i in range(4):
        for t in np.flatnonzero(made.ledger.asked[i, :, 0]):
            changed, _ = sent((i, t))
            for j in range(4):
                before, after = (heard(name, network, x, j) for x in (still, changed))
                moved[i, j, t] = np.any(before != after)
    apart = ~np.eye(4, dtype=bool)
    asked = made.ledger.asked[:, None, :, 0]

    def claimed(subject):
        return (np.arange(rounds) < rounds_that_reach(subject, released=False)[..., None]) & asked

    np.testing.assert_array_equal(moved[apart], claimed(made)[apart])
    each = np.sqrt(np.sum(claimed(made) * made.ledger.ratios()[:, None, :, 0] ** 2, axis=-1))
    np.testing.assert_allclose(pairwise_mu(made, released=False).mu[apart], each[apart])
    shown = between_agents(shown_of(made))
    assert shown["mu"] == [each[apart].min(), each[apart].max()]
    assert shown["epsilon"][1] <= made.terms.epsilon * (1 + 1e-9)
    # nobody's pairs are stated of one of several trainings, of dealt records, of very many agents
    dealt = dataclasses.replace(made, spec=dataclasses.replace(made.spec, dealt=True))
    assert between_agents(shown_of(made, choice=made.certificate)) is None
    assert between_agents(shown_of(dealt)) is None
    with patch.object(sys.modules[between_agents.__module__], "_MOST_PAIRED", 3):
        assert between_agents(shown_of(made)) is None
    # with the wrong neighbours an answer arrives that was not counted
    if name == "gossip":
        wrong = dataclasses.replace(made, network=metropolis(OTHER_PATH))
        assert np.any((moved & ~claimed(wrong))[apart])
    # as if only whoever holds a token later heard of it
    if name == "told":
        with patch.object(RWADMM, "tells_neighbours", new=False):
            assert np.any((moved & ~claimed(made))[apart])


@pytest.fixture(scope="module")
def linear():
    """A plan whose gradients have a public slope, and its shards."""
    rows = np.array([[1.0, *[math.sqrt((slope - 1) / 7)] * 7] for slope in SLOPES]).reshape(32, 1)
    targets = np.random.default_rng(0).standard_normal(32)
    shards = pack(
        rows, targets, np.split(np.arange(32), 4), record_norm=1.0, precision="float64",

    )  # fmt: skip
    problem = Problem(Squared(), NoRegulariser(), WholeSpace())
    made = plan(
        public_facts(problem, shards, clip=math.inf), NIDS(problem, step=0.399),
        (TargetGradient(),),
        Terms(1.0, 1e-5, Adjacency(TargetChange(BETA), "record"), Messages()),
        rounds=4, precision="float64", network=metropolis(path(4)),
    )  # fmt: skip
    return made, shards


@pytest.fixture(scope="module")
def exact(linear):
    made, shards = linear
    features = np.asarray(shards.stacked.features)
    return {free: pairwise_mu_affine(made, features, released=free) for free in (False, True)}


def brute_force(made, shards):
    """Return mu of every pair from perturbed runs: noise by nudges, shifts by moved targets."""
    sent = run_of(made, shards)
    private = records_for_door(made, shards)
    still = sent((-1, -1))
    nudged = {(k, t): sent((k, t)) for k in range(4) for t in range(4)}
    sigma, mu = float(made.ledger.scale[0, 0, 0]), {}
    for i in range(4):
        targets = private.shard.targets.at[i, 0].add(BETA)  # record 0 has norm 1, the largest
        shard = eqx.tree_at(lambda s: s.targets, private.shard, targets)
        moved = sent((-1, -1), private._replace(shard=shard))
        for j in set(range(4)) - {i}:
            for free in (False, True):

                def view(run, j=j, free=free):
                    parts = [heard("gossip", made.network, run[0], j), *([run[1]] if free else [])]
                    return np.concatenate(parts)

                noise = np.array([view(nudged[k, t]) - view(still) for k, t in nudged if k != j])
                shift = view(moved) - view(still)
                inverse = np.linalg.pinv(sigma**2 * noise.T @ noise, rcond=1e-12)
                mu[i, j, free] = math.sqrt(shift @ inverse @ shift)
    return mu


def test_the_exact_value_is_that_of_brute_force_which_catches_a_wrong_neighbour_set(linear, exact):
    truth = brute_force(*linear)
    for (i, j, free), mu in truth.items():
        assert exact[free].mu[i, j] == pytest.approx(mu, rel=1e-6)
    assert min(truth.values()) < 0.9 * max(truth.values())  # hearing less does tell less
    made, shards = linear
    wrong = dataclasses.replace(made, network=metropolis(OTHER_PATH))
    claimed = pairwise_mu_affine(wrong, np.asarray(shards.stacked.features), released=False).mu
    assert any(claimed[i, j] < 0.99 * mu for (i, j, free), mu in truth.items() if not free)


def test_the_matrix_bound_for_fixed_questions_is_exceeded_by_gradients(linear, exact):
    made, _ = linear
    i, j = 2, 0
    answers = unit_answers(made.program, made.ledger.asked, np.zeros((4, 1, 1)))
    owner, rounds = answers.slots[:, 0], 4
    heard_ = answers.heard_by(made.network, j, released=False)
    own = row_space(heard_ * (owner != j))[:, owner == i]
    # the largest of sum_st P_st d_s d_t over |d_t| <= 1 is at most any of these
    gram = own.T @ own
    fixed = min(np.sum(np.abs(gram)), rounds * np.linalg.eigvalsh(gram)[-1], rounds)
    each = float(made.ledger.ratios()[i, 0, 0])
    assert exact[False].mu[i, j] > 1.01 * each * math.sqrt(fixed)
    # what is returned for any question holds
    assert exact[False].mu[i, j] <= pairwise_mu(made, released=False).mu[i, j]
    assert np.all(pairwise_mu(made, released=True).mu[i, j] == exact[True].all_links[i])


def test_what_is_not_known_to_be_affine_is_refused(linear):
    made, shards = linear
    features = np.asarray(shards.stacked.features)
    program = dataclasses.replace(made.program, oracles=(Gradient(Squared(), 1.0),))
    for subject, rows, words in (
        (dataclasses.replace(made, program=program), features, "TargetGradient"),
        (dataclasses.replace(made, network=None), features, "no network"),
        (made, 2 * features, "record norm"),
        (made, features[:3], "shape"),
    ):
        with pytest.raises(InputError, match=words):
            pairwise_mu_affine(subject, rows, released=False)


@pytest.mark.parametrize("others", [0, 2, 5])
def test_of_a_person_at_several_agents_all_of_them_tell(others):
    """By brute force over where else the person has rows, in another order of the agents."""
    settings = Request(
        epsilon=2.0, delta=1e-5, rows_per_person=3, agents_per_person=others + 1, algorithm="nids",
        rounds=3, network=NetworkRequest(network="path"),
    )  # fmt: skip
    data = DataFacts(name="numbers", task="binary", classes=2, columns=3, record_norm=1.0,
                     table=None)  # fmt: skip
    made = propose(data, [30, 60, 90, 300, 33], settings).plan()
    near = dataclasses.replace(made.terms.adjacency, agents_per_person=1)
    alone = dataclasses.replace(made, terms=dataclasses.replace(made.terms, adjacency=near))
    single, found = (pairwise_mu(one, released=False) for one in (alone, made))
    apart = np.where(np.isfinite(single.mu), single.mu, 0.0)
    for i, j in itertools.permutations(range(5), 2):
        rest = [k for k in range(5) if k not in (i, j)]
        places = itertools.combinations(rest, min(others, len(rest)))
        most = max(math.hypot(apart[i, j], *(apart[k, j] for k in more)) for more in places)
        assert found.mu[i, j] == pytest.approx(most, rel=1e-12)
    assert np.max(found.all_links) == pytest.approx(made.certificate.mu, rel=1e-12)
    assert np.all(found.mu[np.isfinite(found.mu)] <= made.certificate.mu * (1 + 1e-12))
