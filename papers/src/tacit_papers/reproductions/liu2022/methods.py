"""The competitors: DP-VRADMM, DP-SADMM, Renyi-DP ADMM and DP proximal SGD."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tacit.algorithms import (
    SADMM,
    VRADMM,
    NoisyGradient,
    RenyiADMM,
    StarAlgorithm,
    variance_reduction,
)
from tacit.oracles import Gradient, MinibatchGradient, Oracle
from tacit.problems import L1, Problem, WholeSpace
from tacit_papers.reproductions.liu2022.cases import Case
from tacit_papers.reproductions.liu2022.settings import LASSO_WEIGHT, ROUNDS

Steps = Literal["published", "public"]
# algorithm, questions, and rounds for a number of epochs
Made = tuple[StarAlgorithm, tuple[Oracle, ...], int]


@dataclass(frozen=True)
class Method:
    """A competitor.

    Attributes
    ----------
    name
        As readers see it.
    made
        From the case, the number of epochs and the bound on a record's coefficient.
    asks
        What it asks; methods that ask the same need the same noise.
    order
        The columns as given, or shuffled.
    reference
        Whether it is run without noise.
    """

    name: str
    made: Callable[[Case, int, float], Made]
    asks: Literal["gradients", "differences", "full gradients"]
    order: Literal["given", "shuffled"] = "given"
    reference: bool = False


def sadmm(steps: Steps, smoothing: float = 0.0) -> Method:
    """Return DP-SADMM: one noised mini-batch gradient a step."""

    def made(case: Case, epochs: int, clip: float) -> Made:
        algorithm = SADMM(case.problem, smoothing, step_rule=steps)
        return algorithm, _batches(case, clip), epochs * case.inner

    return Method(f"DP-SADMM{_how(steps, smoothing)}", made, "gradients")


def vradmm(steps: Steps, smoothing: float = 0.0, *, shuffled: bool = False) -> Method:
    """Return DP-VRADMM: a noised full gradient an epoch, noised differences from it."""

    def made(case: Case, epochs: int, clip: float) -> Made:
        oracles, noise = variance_reduction(
            case.problem.loss, clip=clip, spread=clip, rate=case.rate, inner=case.inner
        )
        algorithm = VRADMM(
            case.problem, smoothing, inner=case.inner, snapshot_noise=noise, step_rule=steps
        )
        return algorithm, oracles, epochs * algorithm.epoch

    name = f"DP-VRADMM{_how(steps, smoothing)}"
    if shuffled:
        return Method(f"{name}, columns shuffled", made, "differences", "shuffled")
    return Method(name, made, "differences")


def renyi(steps: Steps) -> Method:
    """Return Renyi-DP ADMM, the paper's DP-ADMM, for the lasso."""

    def made(case: Case, epochs: int, clip: float) -> Made:
        algorithm = RenyiADMM(case.problem, step_rule=steps)
        return algorithm, _batches(case, clip), epochs * case.inner

    return Method(f"Renyi-DP ADMM{_how(steps, 0.0)}", made, "gradients")


def proximal() -> Method:
    """Return DP proximal SGD, for the lasso."""

    def made(case: Case, epochs: int, clip: float) -> Made:
        plain = Problem(case.problem.loss, L1(LASSO_WEIGHT), WholeSpace())
        return NoisyGradient(plain), _batches(case, clip), epochs * case.inner

    return Method("DP proximal SGD", made, "gradients")


def noisy_gradient() -> Method:
    """Return what `tacit train` uses: 200 full gradients, the structure as a regulariser."""

    def made(case: Case, epochs: int, clip: float) -> Made:
        del epochs
        algorithm = NoisyGradient(case.problem.composed)
        return algorithm, (Gradient(case.problem.loss, clip),), ROUNDS

    return Method("noisy gradient (ours)", made, "full gradients")


def without_noise(method: Method, name: str) -> Method:
    """Return a method under its name in the paper for runs that protect nothing."""

    def made(case: Case, epochs: int, clip: float) -> Made:
        del clip
        return method.made(case, epochs, math.inf)

    return dataclasses.replace(method, name=name, made=made, reference=True)


def _batches(case: Case, clip: float) -> tuple[Oracle, ...]:
    return (MinibatchGradient(case.problem.loss, clip, case.rate),)


def _how(steps: Steps, smoothing: float) -> str:
    return f", {steps} steps" + (f", v = {smoothing:g}" if smoothing else "")
