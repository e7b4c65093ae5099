"""Baselines that need more than a problem, for `taciturn train --algorithm module:name`."""

from __future__ import annotations

from taciturn.algorithms import Composition
from taciturn.kernel.questions import ProximalStep
from taciturn.problems import NoRegulariser, Problem, WholeSpace, default_clip
from taciturn_papers.methods.fixed_point import FixedPointADMM
from taciturn_papers.methods.pairwise import GossipADMM, RecycledADMM

RHO, EXACTNESS = 0.5, 1e-3


def mr_admm(problem: Problem) -> Composition:
    """Return ADMM by gossip that reuses every other answer, the rounds of MR-ADMM.

    For smooth problems without a constraint. rho = 0.5, coefficients of records clipped as by
    default, rows of norm 1, and proximal steps to a tolerance of 1e-3, as in the reproduction of
    Wang et al. 2024.
    """
    return Composition(RecycledADMM(problem, RHO), (_step(problem),))


def gossip_admm(problem: Problem) -> Composition:
    """Return ADMM by gossip that asks for a proximal step in every round, with the same numbers."""
    return Composition(GossipADMM(problem, RHO), (_step(problem),))


def fixed_point_admm(problem: Problem) -> Composition:
    """Return ADMM as a noisy fixed-point iteration, with the same rho; it has an aggregator."""
    alone = Problem(problem.loss, NoRegulariser(), WholeSpace())
    return Composition(FixedPointADMM(problem, RHO), (_step(alone),))


for _function in (mr_admm, gossip_admm):
    _function.network = "gossip"  # type: ignore[attr-defined]


def _step(problem: Problem) -> ProximalStep:
    return ProximalStep(problem, default_clip(problem.loss), RHO, 1.0, EXACTNESS)
