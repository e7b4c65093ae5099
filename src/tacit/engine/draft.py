"""Drafting a plan at a given multiplier: schedules, bounds, scales, ledger and program."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from tacit.algorithms import Algorithm, Noise
from tacit.engine.network import NetworkKind
from tacit.engine.program import Program, cast
from tacit.oracles import Oracle
from tacit.privacy import Adjacency, Inside, Ledger, Mechanism, Observer, SensitivityBound, Sum
from tacit.spec import Spec
from tacit.typing import HostArray, Precision


@dataclass(frozen=True)
class Design:
    """The inputs of a draft."""

    spec: Spec
    algorithm: Algorithm
    oracles: tuple[Oracle, ...]
    adjacency: Adjacency
    mechanism: Mechanism
    inside: Inside | None
    network: NetworkKind


@dataclass(frozen=True)
class Draft:
    """A plan at one multiplier, for one observer."""

    schedules: dict[str, HostArray]
    bounds: tuple[SensitivityBound, ...]
    ledger: Ledger
    program: Program


def drafted(
    design: Design, questions: HostArray, noise: Noise, observer: Observer, precision: Precision
) -> Draft:
    """Return schedules, bounds, ledger and program under this noise."""
    spec, oracles = design.spec, design.oracles
    adjacency, norm = design.adjacency, design.mechanism.norm
    schedule = functools.partial(design.algorithm.schedule, spec, noise=noise)
    schedules = design.network.all_rounds(len(questions), schedule)
    bounds = tuple(oracle.bound(spec, adjacency, norm=norm) for oracle in oracles)
    numbers = design.network.asked(questions)
    sensitivity = _by_question([bound.value for bound in bounds], numbers)
    weighted = [b.value * o.noise.relative_multiplier for b, o in zip(bounds, oracles, strict=True)]
    scale = scales_for(_by_question(weighted, numbers), noise.multiplier, observer)
    rates = np.array([oracle.sampling.rate for oracle in oracles])[np.maximum(numbers, 0)]
    sizes = np.array([oracle.sampling.size or 0 for oracle in oracles])[np.maximum(numbers, 0)]
    ledger = Ledger(numbers, sensitivity, scale, design.mechanism, rates, design.inside, sizes)
    return Draft(
        schedules, bounds, ledger, _program(design, questions, schedules, scale, precision)
    )


def _by_question(of_oracles: list[HostArray], questions: HostArray) -> HostArray:
    """Return the `(A, T, E)` entry of the question in each slot; 0 where there is none."""
    value = np.zeros(questions.shape)
    for number, entries in enumerate(of_oracles):
        value = np.where(questions == number, entries, value)
    return value


def scales_for(sensitivity: HostArray, multiplier: float, observer: Observer) -> HostArray:
    """Return the noise scales for sensitivities with agents on the first axis."""
    if multiplier == 0:
        return np.zeros_like(sensitivity)
    if not isinstance(observer, Sum):
        return multiplier * sensitivity
    honest = max(1, sensitivity.shape[0] - observer.colluders)
    largest = np.max(sensitivity, axis=0, keepdims=True) / np.sqrt(honest)
    return multiplier * np.broadcast_to(largest, sensitivity.shape).copy()


def _program(
    design: Design,
    questions: HostArray,
    schedules: dict[str, HostArray],
    scale: HostArray,
    precision: Precision,
) -> Program:
    program = Program(
        algorithm=design.algorithm,
        oracles=design.oracles,
        mechanism=design.mechanism,
        questions=jnp.asarray(questions, jnp.int32),
        shared={name: jnp.asarray(v) for name, v in schedules.items() if v.ndim == 1},
        per_agent={name: jnp.asarray(v.T) for name, v in schedules.items() if v.ndim == 2},
        scales=jnp.asarray(design.network.of_participants(_rounded_up(scale, precision))),
        template=jnp.zeros(design.spec.shape),
        network=design.network,
    )
    narrowed: Program = cast(program, jnp.dtype(precision))
    return narrowed


def _rounded_up(scale: HostArray, precision: Precision) -> HostArray:
    """Return the scales in the run's precision, never below what was planned."""
    narrow = scale.astype(precision)
    return np.where(narrow < scale, np.nextafter(narrow, np.inf, dtype=narrow.dtype), narrow)
