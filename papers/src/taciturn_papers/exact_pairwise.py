"""Exact pairwise privacy, for questions that are affine with a public slope."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from typing_extensions import override

from taciturn.algorithms import EXTRA, NIDS, RECAL, LinearisedGossipADMM, Turn, Walkman
from taciturn.audit import Pairwise, pairwise_mu
from taciturn.engine import Plan, Program, cast, compute
from taciturn.errors import InputError
from taciturn.kernel.door import Chance, Door
from taciturn.kernel.privacy import Gaussian, TargetChange
from taciturn.kernel.questions import Point, TargetGradient
from taciturn.network import Mixing, Network, Walk
from taciturn.problems import L2, NoRegulariser, Problem, WholeSpace
from taciturn.typing import Array, HostArray

MOST_NUMBERS = 4000
AFFINE = (
    "questions are affine with public slopes, so what an agent receives is a public linear map of "
    "private constants and noise"
)
_METHODS = (NIDS, EXTRA, LinearisedGossipADMM, RECAL, Walkman)


class Affine(Door):
    """Answers slope x + noise, with the private constants of a run set to 0.

    `slope`, `noise`: those of all agents.
    """

    slope: Float[Array, "A D D"]
    noise: Float[Array, "A T E D"]

    @override
    def __call__(self, queries: Point, turn: Turn, chance: Chance | None) -> tuple[Array, None]:
        answers = jnp.einsum("sij,sj->si", self.slope[turn.agent], queries.x)
        answers += self.noise[turn.agent, turn.round, turn.local]
        return jnp.where(turn.question >= 0, answers, jnp.zeros_like(answers)), None


def pairwise_mu_affine(
    plan: Plan, features: Float[HostArray, "A M D"], *, released: bool
) -> Pairwise:
    r"""Return exactly what agent j learns about one target of agent i, given public features.

    Let B be the linear map from the noise of the answers to what j receives, C the covariance of
    the noise, and P the orthogonal projection onto the row space of B C^(1/2). Then

        mu_ij = max_k | P C^(-1/2) (change of i's answers if y_ik moves by beta) |_2.

    Parameters
    ----------
    features
        The agents' public features, padded rows 0.
    released
        Whether agents also learn the released model.

    Raises
    ------
    InputError
        If the plan has no network, its question is not `taciturn.kernel.questions.TargetGradient`
        under `TargetChange` of one record with Gaussian noise, its algorithm or regulariser is not
        known to be affine, or its answers hold more than 4,000 numbers.

    Notes
    -----
    **Guarantee.** The exact answer at z is H_i z - X_i'y_i with H_i = X_i'X_i public. Steps, duals
    and mixing are affine, the prox of no or an l2 regulariser too, so by induction over the rounds
    all states and messages are affine in (-X_k'y_k + noise_kt), with coefficients that are public:
    the questions' dependence on hidden answers is in B. Agent j, which knows its own noise, hears
    B e plus what it knows, e the other agents' noise with covariance C. If y_ik moves by beta, all
    answers of i move by the same vector -beta x_ik, a constant of the closed loop, and what j hears
    moves by B d, d = that vector in all answers of i. That is a Gaussian shift, with
    F = B C^(1/2) and u = C^(-1/2) d:

        mu^2 = (B d)'(B C B')^+ (B d) = u' F'(F F')^+ F u = |P u|^2.

    It is at most |u|, the value for all links at that record, and `pairwise_mu` bounds it besides;
    the smaller is returned. It is reached by this very pair, so it is exact. Singular values of F
    that rounding cannot tell from 0 count as 0: the messages themselves are no more precise.
    """
    beta = _checked_beta(plan)
    features = _checked_features(plan, features)
    bounds = pairwise_mu(plan, released=released)
    slopes = np.einsum("amd,ame->ade", features, features)
    answers = unit_answers(plan.program, plan.ledger.asked, slopes)
    scale = np.repeat(plan.ledger.scale[tuple(answers.slots.T)], features.shape[-1])
    owner = np.repeat(answers.slots[:, 0], features.shape[-1])
    mu = np.full_like(bounds.mu, np.inf)
    for j in range(plan.spec.agents):
        received = answers.heard_by(plan.network, j, released=released)
        seen = row_space(received * np.where(owner == j, 0.0, scale)) / scale
        for i in set(range(plan.spec.agents)) - {j}:
            of_sums = seen[:, owner == i].reshape(len(seen), -1, features.shape[-1]).sum(axis=1)
            mu[i, j] = np.max(np.linalg.norm(of_sums @ features[i].T, axis=0))
    mu *= beta
    return Pairwise(np.minimum(mu, bounds.mu), bounds.all_links, AFFINE)


class UnitAnswers(NamedTuple):
    """What a run sends if one number of one answer is 1 and all else is 0.

    Attributes
    ----------
    slots
        `(N, 3)`: agent, round and question of every answer.
    messages
        `(N D, T, S, L)`: the messages, all parts side by side, of the S who send in a round.
    model
        `(N D, D)`: the released model.
    """

    slots: Int[HostArray, "N 3"]
    messages: Float[HostArray, "ND T S L"]
    model: Float[HostArray, "ND D"]

    def heard_by(self, network: Network, agent: int, *, released: bool) -> Float[HostArray, "R ND"]:
        """Return the rows of the linear map from answers to what an agent hears."""
        received = heard_by(network, agent, self.messages)
        flat = received.reshape(len(received), -1)
        return (np.concatenate([flat, self.model], axis=1) if released else flat).T


def heard_by(
    network: Network, agent: int, messages: Float[HostArray, "N T S L"]
) -> Float[HostArray, "N H K L"]:
    """Return what an agent hears of the messages of N runs.

    In gossip that is what its neighbours send. On a relay it is the tokens handed to it: the token
    of hop t - 1 is handed to the holder of hop t.
    """
    if isinstance(network, Mixing):
        return messages[:, :, network.graph.neighbours()[agent]]
    assert isinstance(network, Walk)
    return messages[:, :-1][:, network.holders[1:] == agent]


def unit_answers(
    program: Program, answered: HostArray, slopes: Float[HostArray, "A D D"]
) -> UnitAnswers:
    """Return the run of every single number of every answer, in closed loop with the slopes."""
    slots = np.argwhere(answered)
    program = cast(program, jnp.float64)
    dimension, (agents, rounds, questions) = slopes.shape[-1], answered.shape
    given = jnp.asarray(slopes, jnp.float64)

    def one(place: Array) -> tuple[Array, Any]:
        noise = jnp.zeros((agents, rounds, questions, dimension)).at[tuple(place)].set(1.0)
        model, trace = compute(program, Affine(given, noise), keep=frozenset({"messages"}))
        return model, trace.messages

    numbers = np.arange(len(slots) * dimension)
    places = np.column_stack([np.repeat(slots, dimension, axis=0), numbers % dimension])
    model, sent = jax.lax.map(one, jnp.asarray(places), batch_size=256)
    parts = [np.asarray(leaf) for leaf in jax.tree.leaves(sent)]
    return UnitAnswers(slots, np.concatenate(parts, axis=-1), np.asarray(model))


def row_space(rows: Float[HostArray, "R N"]) -> Float[HostArray, "r N"]:
    """Return an orthonormal basis of the row space, up to rounding."""
    _, sizes, right = np.linalg.svd(rows, full_matrices=False)
    tiny = max(rows.shape) * np.finfo(np.float64).eps * np.max(sizes, initial=0.0)
    return np.asarray(right[sizes > tiny])


def _checked_beta(plan: Plan) -> float:
    """Return beta, after checking that the run is affine with public slopes."""
    program, relation = plan.program, plan.terms.adjacency.relation
    if not all(type(oracle) is TargetGradient for oracle in program.oracles):
        raise InputError(
            "only TargetGradient is known to be affine with a public slope; use pairwise_mu, which "
            "holds for any question"
        )
    if not isinstance(relation, TargetChange) or plan.terms.adjacency.unit != "record":
        raise InputError("the exact value is for one target that moves: unit record")
    if not isinstance(program.mechanism, Gaussian):
        raise InputError("the exact value is for Gaussian noise; without noise there is no privacy")
    algorithm = program.algorithm
    problem = algorithm.problem if isinstance(algorithm, _METHODS) else None
    if type(algorithm) not in _METHODS or not _affine_prox(problem):
        raise InputError(
            "only NIDS, EXTRA, LinearisedGossipADMM, RECAL and Walkman with no or an l2 "
            "regulariser and no constraint are known to be affine; use pairwise_mu"
        )
    if np.sum(plan.ledger.asked) * plan.spec.dimension > MOST_NUMBERS:
        raise InputError(
            f"the answers hold more than {MOST_NUMBERS} numbers; plan fewer rounds, or use "
            "pairwise_mu"
        )
    return relation.beta


def _affine_prox(problem: Problem | None) -> bool:
    return (
        problem is not None
        and isinstance(problem.regulariser, NoRegulariser | L2)
        and isinstance(problem.constraint, WholeSpace)
    )


def _checked_features(plan: Plan, features: HostArray) -> HostArray:
    features = np.asarray(features, np.float64)
    if features.ndim != 3 or features.shape[::2] != (plan.spec.agents, plan.spec.dimension):
        raise InputError(
            f"the features have shape {features.shape}; they must be ({plan.spec.agents}, records, "
            f"{plan.spec.dimension}), as the shards hold them"
        )
    if not np.all(np.linalg.norm(features, axis=-1) <= plan.spec.record_norm * (1 + 1e-9)):
        raise InputError("a row of the features exceeds the record norm; give the packed rows")
    return features
