"""The competitors of the paper, and our public choices beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

import equinox as eqx
import numpy as np
from typing_extensions import override

from tacit.algorithms import ADMM, DPADMM, Choice, Noise, NoisyGradient, method_named
from tacit.oracles import Gradient, Oracle, PerturbedStep, ProximalStep
from tacit.problems import L1, L2, Logistic, Problem, WholeSpace
from tacit.spec import Spec
from tacit.typing import HostArray
from tacit_papers.reproductions.arms import Arm
from tacit_papers.reproductions.huang2019.settings import (
    CLIP,
    LEARNING_RATE,
    PUBLIC_CLIP,
    RADIUS,
    RHO,
    TOLERANCE,
    WEIGHT,
    Kind,
    Scale,
)

PROBLEMS: Mapping[str, Problem] = MappingProxyType(
    {
        "l1": Problem(Logistic(), L1(WEIGHT), WholeSpace()),
        "l2": Problem(Logistic(), L2(WEIGHT), WholeSpace()),
    }
)
DP_ADMM, DPSGD, PVP, DVP = "DP-ADMM as published", "DPSGD", "PVP", "DVP"
PUBLIC, OURS, EXACT = "DP-ADMM, public c_w", "noisy gradient (ours)", "ADMM without noise"


class ConstantStep(NoisyGradient):
    """Noisy gradient descent as the paper's DPSGD at sampling ratio 1: one step size, last iterate.

    Attributes
    ----------
    step_size
        The learning rate.
    """

    step_size: float = eqx.field(static=True, kw_only=True)

    @override
    def schedule(self, spec: Spec, rounds: int, noise: Noise) -> dict[str, HostArray]:
        return {
            "step_size": np.full(rounds, self.step_size),
            "momentum": np.zeros(rounds),
            "averaging": np.ones(rounds),
        }


def published_arm(kind: Kind, scale: Scale) -> Arm:
    """Return DP-ADMM with the constants of the paper: (29) for l1, (34) for l2."""
    radius = RADIUS[kind]
    rule: Literal["nonsmooth", "smooth"] = "nonsmooth" if kind == "l1" else "smooth"

    def algorithm(problem: Problem) -> DPADMM:
        return DPADMM(problem, rho=RHO, radius=radius, step_rule=rule, regulariser_at="agents")

    return Arm(DP_ADMM, algorithm, _gradient(CLIP), CLIP, scale.rounds, ("c_w",))


def descent_arm(scale: Scale) -> Arm:
    """Return the paper's DPSGD: all records in every round, learning rate 0.1."""
    return Arm(
        DPSGD,
        lambda problem: ConstantStep(problem, step_size=LEARNING_RATE),
        _gradient(CLIP),
        CLIP,
        scale.rounds,
    )


def public_arm(name: str, scale: Scale) -> Arm:
    """Return DP-ADMM or our noisy gradient with the settings that `tacit train` would choose."""
    method = "dp-admm" if name == PUBLIC else "noisy-gradient"
    return Arm(
        name,
        lambda problem: method_named(method).algorithm(
            Choice(problem=problem, clip=PUBLIC_CLIP, record_norm=1.0)
        ),
        _gradient(PUBLIC_CLIP),
        PUBLIC_CLIP,
        scale.public_rounds,
    )


def exact_arm(name: str, scale: Scale) -> Arm:
    """Return ADMM with exact steps: Algorithm 1, PVP (Algorithm 2) or DVP.

    The first two differ in their terms alone: without noise, and with noise on the answer.
    """

    def oracle(problem: Problem) -> Oracle:
        if name == DVP:
            step = ProximalStep(problem, clip=CLIP, rho=RHO, record_norm=1.0)
            return PerturbedStep(step)
        return ProximalStep(problem, clip=CLIP, rho=RHO, record_norm=1.0, tol=TOLERANCE)

    def algorithm(problem: Problem) -> ADMM:
        return ADMM(problem, RHO, regulariser_at="agents")

    return Arm(name, algorithm, oracle, CLIP, scale.rounds)


def _gradient(clip: float) -> Callable[[Problem], Oracle]:
    return lambda problem: Gradient(problem.loss, clip)
