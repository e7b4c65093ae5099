"""Methods of a star on a spanning tree: the star's numbers and certificate, without a server."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from conftest import computed, make_algorithm, make_shards, make_terms, plan_of
from taciturn.algorithms import METHODS
from taciturn.audit import canary, replay
from taciturn.audit.subject import AGENTS, Setup, proposal_of
from taciturn.engine import records_for_door, run, traffic_of
from taciturn.engine.network import OnTree
from taciturn.engine.planning import plan
from taciturn.engine.protocol import Summed
from taciturn.errors import InputError
from taciturn.kernel.door.door import Live
from taciturn.kernel.exact import exact_answers
from taciturn.kernel.privacy import Sum, epsilon_of
from taciturn.kernel.questions import Gradient
from taciturn.network import (
    complete,
    erdos_renyi,
    metropolis,
    path,
    ring,
    spanning_tree,
    star,
)
from taciturn.problems import L2, Logistic, Problem, public_facts
from taciturn_federation.masks import Masks, Participants

PROBLEM = Problem(Logistic(), L2(0.05))
GRAPHS = [ring(8), path(8), star(8), complete(8), erdos_renyi(8, 0.3, seed=1)]
ON_STARS = [name for name, method in METHODS.items() if method.network is None]


def plans(graph, *, shards=None, name="noisy-gradient", terms=None, rounds=5, precision="float64"):
    """One plan on a star, and the same on the spanning tree of a graph."""
    shards = shards or make_shards(agents=graph.agents)
    return [
        plan_of(
            make_algorithm(name, PROBLEM), shards, None, terms or make_terms(), rounds=rounds,
            precision=precision, network=network,
        )
        for network in (None, spanning_tree(graph))
    ]  # fmt: skip


def connected(tree):
    return OnTree.connect(tree, tree.graph.agents, 1)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: f"{graph.agents}-{len(graph.edges)}")
def test_up_each_edge_goes_the_sum_of_all_below_it_and_the_root_has_the_total(graph):
    tree = spanning_tree(graph)
    steps = np.random.default_rng(0).integers(-(2**62), 2**62, (graph.agents, 2, 3))
    sent = np.asarray(connected(tree).sent(jnp.asarray(steps)))
    for agent in range(graph.agents):
        below = []  # those whose way to the root leads through the agent
        for other in range(graph.agents):
            way = [other]
            while way[-1] != tree.root:
                way.append(int(tree.parents[way[-1]]))
            below += [other] if agent in way else []
        total = [sum(int(steps[other].flat[k]) for other in below) for k in range(6)]
        wrapped = [(number + 2**63) % 2**64 - 2**63 for number in total]
        assert sent[agent].ravel().tolist() == wrapped


def same_but_for_words(on_star, on_tree):
    """Whether two certificates differ in what is said of the links alone."""
    words = {"trust": "", "observer": "", "legs": ()}
    return dataclasses.replace(on_star, **words) == dataclasses.replace(on_tree, **words)


def agree(on_star, on_tree, shards, runtime="simulate"):
    assert on_star.ledger.same_as(on_tree.ledger) is None
    assert same_but_for_words(on_star.certificate, on_tree.certificate)
    ran = [run(on_star, shards, runtime="simulate", seed=3)]
    ran.append(run(on_tree, shards, runtime=runtime, seed=3))
    np.testing.assert_allclose(ran[0].model, ran[1].model, rtol=1e-9, atol=1e-12)
    assert same_but_for_words(ran[0].certificate, ran[1].certificate)


@pytest.mark.parametrize("runtime", ["simulate", pytest.param("serial", marks=pytest.mark.slow)])
def test_a_tree_has_the_ledger_the_certificate_and_the_model_of_the_star(runtime):
    graph = erdos_renyi(6, 0.3, seed=1)
    shards = make_shards(agents=6)
    agree(*plans(graph, shards=shards), shards, runtime)


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_STARS)
def test_every_method_of_a_star_runs_on_a_tree_with_the_same_numbers(name):
    proposal = proposal_of(name, Setup(epsilon=2.0, precision="float64"))
    on_star, (algorithm, oracles) = proposal.plan(), proposal.composition()
    tree = spanning_tree(path(on_star.spec.agents))
    on_tree = plan(
        on_star.spec, algorithm, oracles, on_star.terms, rounds=on_star.rounds,
        precision="float64", network=tree, multiplier=on_star.multiplier,
    )  # fmt: skip
    shards = make_shards(
        agents=on_star.spec.agents, records=on_star.spec.counts[0], features=on_star.spec.shape[0]
    )
    agree(on_star, on_tree, shards)


@pytest.mark.slow
def test_a_sum_in_whole_steps_is_that_of_the_star_to_the_bit():
    shards = make_shards(agents=5)
    on_star, _ = plans(ring(5), shards=shards, terms=make_terms(observer=Sum(1)))
    assert on_star.program.summed
    assert isinstance(on_star.program.executed, Summed)
    tree = connected(spanning_tree(ring(5)))
    on_tree = dataclasses.replace(on_star.program, network=tree)
    private = records_for_door(on_star, shards)
    models = [computed(program, private)[0] for program in (on_star.program, on_tree)]
    np.testing.assert_array_equal(*models)


def test_under_masks_sums_on_a_tree_are_credited_as_on_the_star():
    on_star, on_tree = plans(ring(6), terms=make_terms(observer=Sum(1)))
    _, as_messages = plans(ring(6))
    assert on_star.program.summed
    assert on_tree.program.summed
    np.testing.assert_array_equal(on_tree.ledger.scale, on_star.ledger.scale)
    assert on_tree.ledger.scale.max() < 0.5 * as_messages.ledger.scale.max()
    assert on_tree.certificate.epsilon == on_star.certificate.epsilon
    assert "masks of all pairs" in on_tree.certificate.trust
    assert "at most 1 of them" in on_tree.certificate.trust
    assert "the sum of the noised messages below it" in as_messages.certificate.trust


@pytest.mark.parametrize("graph", [ring(6), path(5)], ids=["ring", "path"])
def test_masked_words_go_up_a_tree_and_only_the_total_opens(graph):
    tree, agents = connected(spanning_tree(graph)), graph.agents
    keys = [X25519PrivateKey.generate() for _ in range(agents)]
    public = tuple(key.public_key().public_bytes_raw() for key in keys)
    everybody = Participants(bytes(32), tuple(bytes([k]) * 32 for k in range(agents)), public)
    words = np.random.default_rng(0).integers(-(2**40), 2**40, (agents, 4096))
    masked = np.stack([
        Masks(key, everybody, k, part="test").mask(0, bytes(32), words[k].view(np.uint64))
        for k, key in enumerate(keys)
    ])  # fmt: skip
    up = np.asarray(tree.sent(jnp.asarray(masked.view(np.int64))))
    np.testing.assert_array_equal(up[int(tree.root)], words.sum(axis=0))
    plain = np.asarray(tree.sent(jnp.asarray(words)))
    for agent in set(range(agents)) - {int(tree.root)}:
        counts = np.bincount(up[agent].view(np.uint8), minlength=256)
        assert scipy.stats.chisquare(counts).pvalue > 1e-6
        assert scipy.stats.chisquare(np.bincount(plain[agent].view(np.uint8))).pvalue < 1e-6


@pytest.mark.unchecked
def test_a_tree_of_other_agents_and_a_method_that_has_none_are_refused():
    shards = make_shards(agents=4)
    with pytest.raises(InputError, match="the network has 5 agents, the data 4"):
        plans(ring(5), shards=shards)
    facts = public_facts(PROBLEM, shards, clip=1.0)
    method, oracles = make_algorithm("noisy-gradient", PROBLEM), (Gradient(PROBLEM.loss, 1.0),)
    with pytest.raises(InputError, match=r"needs no network \(an aggregator\) or a Tree"):
        plan(
            facts, method, oracles, make_terms(),
            rounds=3, precision="float64", network=metropolis(ring(4)),
        )  # fmt: skip


def test_traffic_is_counted_in_messages_and_numbers():
    on_star, on_tree = plans(ring(6), rounds=5)
    assert traffic_of(on_tree.program) == (2 * 5 * 5, 2 * 5 * 5 * 3)
    messages, numbers = traffic_of(on_star.program)
    assert messages == 2 * 6 * 5
    assert numbers > 6 * 5 * 3  # the public value of this method holds more than a model


# what travels, planted faults


class CountsTwice(OnTree):
    """Agent 1 is added to its parent's sum twice."""

    def _added_up(self, leaf):
        return super()._added_up(leaf.at[1].multiply(2))


class LeavesOut(OnTree):
    """Agent 1 passes on what comes from below, and nothing of its own."""

    def _added_up(self, leaf):
        return super()._added_up(leaf.at[1].set(0))


class Clear(Live):
    """Tells agent 2 its exact answer, and records the noised one."""

    def __call__(self, queries, turn, chance):
        answer, record = super().__call__(queries, turn, chance)
        exact = exact_answers(self.oracles, self.private, queries, turn, chance)
        return jnp.where((turn.agent == 2)[:, None], exact, answer), record


def on_tree_of_audit():
    pair = canary(agents=AGENTS, records=4, features=5, seed=0)
    terms = make_terms(epsilon=float(epsilon_of(1e-5, 1.5)))
    made = plan_of(
        make_algorithm("noisy-gradient", pair.problem), pair.first, (pair.oracle,), terms, rounds=4,
        network=spanning_tree(path(AGENTS)),
    )  # fmt: skip
    return pair, made


@pytest.mark.parametrize(
    ("network", "door", "sound"),
    [
        pytest.param(OnTree, Live, True, id="sound"),
        pytest.param(CountsTwice, Live, False, id="counted twice"),
        pytest.param(LeavesOut, Live, False, id="left out"),
        pytest.param(OnTree, Clear, False, id="un-noised on an edge"),
    ],
)
def test_the_replay_sees_what_travels_on_every_edge(network, door, sound):
    pair, made = on_tree_of_audit()
    as_run = network.connect(made.network, AGENTS, made.rounds)
    program = dataclasses.replace(made.program, network=as_run)
    first, second = (records_for_door(made, one) for one in (pair.first, pair.second))
    keep = frozenset({"answers", "messages"})
    _, trace = computed(program, first, keep=keep, door=door)
    seen = replay(made, made.program.oracles, trace, first, second)
    assert seen.bounds_hold
    assert seen.messages_hold is sound
