"""Sums as deployed: sites' doors, masks, one opened sum, and a colluder who takes off its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from scipy import stats

from taciturn.audit.epsilon import lower_bound
from taciturn.audit.subject import Setup, canary, planned
from taciturn.engine.program import agent_turns, server_turns
from taciturn.kernel.door.door import at
from taciturn.kernel.door.opening import prepared
from taciturn.kernel.exact import exact_answers
from taciturn.kernel.privacy import Sum, epsilon_of
from taciturn_federation.coordinator import _delivered
from taciturn_federation.masks import Masks, Participants, open_sum
from taciturn_federation.site import AgentRounds

AGENTS, ROUNDS, EACH = 3, 600, 1.5
pytestmark = pytest.mark.slow


def plan_for(colluders, agents=AGENTS):
    """Answers of mu 1.5 each, so that each of them is an attack by itself."""
    epsilon = float(epsilon_of(1e-5, EACH * np.sqrt(ROUNDS)))
    setup = Setup(epsilon=epsilon, observer=Sum(colluders), rounds=ROUNDS, agents=agents)
    return planned("noisy-gradient", setup)


def masks_of(agents):
    keys = [X25519PrivateKey.generate() for _ in range(agents)]
    signers = tuple(bytes([agent]) * 32 for agent in range(agents))
    whole = Participants(
        bytes(32), signers, tuple(key.public_key().public_bytes_raw() for key in keys)
    )
    return [Masks(key, whole, agent, part="training") for agent, key in enumerate(keys)]


class Deployed:
    """What a coordinator and `colluders`, the last of the agents, have after a run on `actual`.

    `views` are the opened sums less what the colluders sent, and less what all honest agents would
    have answered exactly on either data set, in units of the answer: `(T, 2, d)`.
    """

    def __init__(self, plan, pair, actual, *, colluders):
        program, agents = plan.program, plan.program.agents
        self.plan, algorithm, network = plan, program.executed, program.network
        answering = [
            AgentRounds(plan, agent, self._of(actual, agent), seed=None) for agent in range(agents)
        ]
        masks, honest = masks_of(agents), agents - colluders
        # on the host: in JAX every slice of every round is a program
        turns, server = jax.device_get((agent_turns(program), server_turns(program)))
        states = [one.first_state() for one in answering]  # of no round: the method keeps none
        both = [[self._of(data, a) for a in range(honest)] for data in (pair.first, pair.second)]
        public, views, moved = network.first_inboxes(algorithm, program.template), [], []
        exact = jax.jit(lambda private, query, turn: exact_answers(
            program.oracles, private, query, turn, None))  # fmt: skip
        for turn in range(ROUNDS):
            messages = [
                np.asarray(one.answer(turn, state, public).message)
                for one, state in zip(answering, states, strict=True)
            ]
            sent = [
                one.mask(turn, bytes(32), m.view(np.uint64))
                for one, m in zip(masks, messages, strict=True)
            ]
            left = open_sum(sent, agents) - sum(messages[honest:], np.zeros(5, np.int64))
            now = jax.tree.map(lambda leaf: leaf[:, 0, 0], turns)
            now = jax.tree.map(jnp.asarray, at(now, turn))
            query = algorithm.ask(states[0], public, now)
            asked = at((query, now), None)
            asked = asked[0], asked[1]._replace(question=now.question)
            truth = [[np.asarray(exact(p, *asked))[0] for p in data] for data in both]
            value = left * 2.0 ** float(now.exponent)
            views.append([value - np.sum(one, axis=0) for one in truth])
            moved.append(np.linalg.norm(truth[0][0] - truth[1][0]))
            words = [jnp.asarray(one.view(np.int64)) for one in sent]
            ending = jax.tree.map(jnp.asarray, at(server, turn))
            public = _delivered(network, algorithm, public, words, ending)
        self.views, self.moved = np.array(views), np.array(moved)
        scale = plan.ledger.scale[:honest, :, 0]
        self.deviation = np.sqrt(np.sum(scale**2, axis=0))

    def _of(self, shards, agent):
        program = self.plan.program
        return at(prepared(program.oracles, program.mechanism, shards), slice(agent, agent + 1))

    @property
    def ratios(self):
        """The log likelihood ratio of the first data set to the second, of every round."""
        first, second = (np.sum(self.views[:, n] ** 2, axis=1) for n in (0, 1))
        return (second - first) / (2 * self.deviation**2)


def pair_of(agents):
    return canary(agents=agents, records=4, features=5, seed=3)


@pytest.mark.parametrize(("agents", "colluders"), [(3, 1), (6, 5)])
def test_sums_as_deployed_reveal_to_colluders_what_is_certified_and_no_less(agents, colluders):
    """With five of six the honest one is alone: the sum less theirs is its answer."""
    plan, pair = plan_for(colluders, agents), pair_of(agents)
    both = (pair.first, pair.second)
    sides = [Deployed(plan, pair, actual, colluders=colluders) for actual in both]
    for number, side in enumerate(sides):
        realised = np.sqrt(np.sum((side.moved / side.deviation) ** 2))  # by replay
        assert 0.95 * plan.certificate.mu <= realised <= plan.certificate.mu
        # the noise that is left in the sum has the law that this counts on
        noise = side.views[:, number] / side.deviation[:, None]
        assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-4
        squares = np.sum(noise**2)
        least, most = stats.chi2.ppf([1e-4, 1 - 1e-4], noise.size)
        assert least < squares < most
    ratios = [side.ratios for side in sides]
    assert 0.5 * EACH < lower_bound(*ratios, confidence=0.9999).mu <= EACH
    assert abs(told_apart(*ratios) - EACH) < 0.26  # four standard errors


def told_apart(first, second):
    """How far apart the ratios lie, in their standard deviations: mu, of normal ratios."""
    return (np.mean(first) - np.mean(second)) / np.sqrt((np.var(first) + np.var(second)) / 2)


def test_noise_for_three_is_seen_to_be_too_little_once_one_of_them_colludes():
    """The planted fault: 1/sqrt(A) of the noise, and an attacker who takes a colluder's off."""
    plan, pair = plan_for(0), pair_of(AGENTS)
    sides = [Deployed(plan, pair, actual, colluders=1) for actual in (pair.first, pair.second)]
    realised = np.sqrt(np.sum((sides[0].moved / sides[0].deviation) ** 2))
    assert realised > 1.2 * plan.certificate.mu
    assert told_apart(sides[0].ratios, sides[1].ratios) > 1.05 * EACH  # it is 1.22 of it
