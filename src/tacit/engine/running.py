"""A run: a plan and data behind a door; the observed ledger must equal the planned one."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from tacit.engine.door import Live, Private
from tacit.engine.planning import Plan
from tacit.engine.protocol import KEPT, Trace, observed_ledger
from tacit.engine.runtimes import serial, simulate
from tacit.errors import InputError, PrivacyError
from tacit.privacy import Certificate, Ledger
from tacit.problems import Shards, check_norms
from tacit.typing import HostArray, Key

Runtime = Literal["simulate", "serial"]


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes
    ----------
    model
        The released model.
    trace
        What was kept of the public history.
    ledger
        The observed ledger, equal to the planned one.
    certificate
        The guarantee; stamped as a reproduction if the noise came from a given seed.
    seconds
        Wall time of the run, compilation included.
    """

    model: HostArray
    trace: Trace
    ledger: Ledger
    certificate: Certificate
    plan: Plan
    seconds: float


def run(
    plan: Plan,
    shards: Shards,
    *,
    runtime: Runtime,
    seed: int | None = None,
    keep: frozenset[str] = frozenset(),
    report: Callable[[Any], None] | None = None,
) -> Run:
    """Run `plan` on `shards` and return the released model, with its certificate.

    Parameters
    ----------
    runtime
        "simulate" (vectorised) or "serial" (one agent at a time).
    seed
        None: the noise key comes from the operating system and is written nowhere. A number: the
        noise can be drawn again by whoever knows it, so the run is stamped "reproduction, not
        private".
    keep
        Parts of the trace to keep, of `KEPT`. Single answers and messages are for the
        data custodian's audit: a certificate for the observer `sum` does not cover them.

    Raises
    ------
    InputError
        If the shards differ from those of the plan (counts, dimension, record norm).
    PrivacyError
        If a record breaks the norm that the shards promise, the program asks for more than was
        planned, or the observed ledger differs from the planned one. Nothing is returned then.
    """
    if not keep <= set(KEPT):
        raise InputError(f"cannot keep {sorted(keep - set(KEPT))}; choose from {', '.join(KEPT)}")
    check_shards(shards)
    check_bounds(plan)
    private = behind_the_door(plan, shards)
    program = plan.program
    door = Live(
        program.oracles, program.mechanism, fresh_key() if seed is None else jax.random.key(seed)
    )
    began = time.perf_counter()
    execute = simulate if runtime == "simulate" else serial
    model, trace = execute(program, door, private, keep=keep, report=report)
    released = np.asarray(model)
    seconds = time.perf_counter() - began
    records = trace.records
    ledger = observed_ledger(plan.ledger, records.kind, records.scale, records.rate, records.batch)
    plan.ledger.same_as(ledger)
    certificate = plan.certificate
    if seed is not None:  # whoever knows the seed subtracts the noise
        certificate = dataclasses.replace(certificate, reproduction=True, attacker_tpr=1.0)
    return Run(released, trace, ledger, certificate, plan, seconds)


def behind_the_door(plan: Plan, shards: Shards) -> Private:
    """Return the data for the doors of `plan`; raise `InputError` for other shards than planned."""
    spec, program = plan.spec, plan.program
    if shards.counts != spec.counts:
        raise InputError(
            "the shards' record counts are not those the plan was made for; plan again"
        )
    if shards.record_norm != spec.record_norm:
        raise InputError(
            f"the shards enforce record norm {shards.record_norm:g}, the plan assumed "
            f"{spec.record_norm:g}; pack them with the planned bound or plan again"
        )
    features = shards.stacked.features
    if features.dtype != program.template.dtype or features.shape[-1] != spec.shape[0]:
        raise InputError(
            f"the shards hold {features.shape[-1]} features in {features.dtype}; the plan is for "
            f"{spec.shape[0]} in {plan.precision}"
        )
    return Private(shards.stacked, jnp.asarray(shards.counts, program.template.dtype))


def check_shards(shards: Shards) -> None:
    """Raise `PrivacyError` unless the records are what the sensitivity bounds take them for.

    Every row, masked or not, has norm at most R (and is a number), every mask is 0 or 1, and there
    is one block of rows per public count.
    """
    check_norms(shards.stacked, shards.record_norm)
    mask = np.asarray(shards.stacked.mask)
    if not np.all((mask == 0) | (mask == 1)):
        raise PrivacyError("a mask is neither 0 nor 1, so a record would be weighted; pack again")
    if not np.all(np.isfinite(np.asarray(shards.stacked.targets))):
        raise PrivacyError("a target is not finite, so an answer would tell of it; pack again")
    if len(mask) != len(shards.counts):
        raise PrivacyError(
            f"there are {len(mask)} blocks of records for {len(shards.counts)} counts; pack again"
        )


def check_bounds(plan: Plan) -> None:
    """Raise `PrivacyError` unless the program's oracles have the bounds that were planned.

    `InputError` if they do not suit the method, the public facts or an accountant (`Oracle.check`).
    """
    oracles = plan.program.oracles
    same = len(oracles) == len(plan.bounds)
    for oracle, bound in zip(oracles, plan.bounds, strict=False):
        loss, rho = plan.program.algorithm.loss, plan.program.algorithm.step_rho
        oracle.check(plan.spec, bound.adjacency, norm=bound.norm, loss=loss, rho=rho)
        fresh = oracle.bound(plan.spec, bound.adjacency, norm=bound.norm)
        same = same and bool(np.all(fresh.value <= bound.value))
    questions = plan.program.network.asked(np.asarray(plan.program.questions))
    if not same or not np.array_equal(questions, plan.ledger.kind):
        raise PrivacyError("the program's questions are not the planned ones; plan again")


def fresh_key() -> Key:
    """Return a noise key from the operating system's entropy. It is never written down."""
    words = np.frombuffer(os.urandom(8), dtype=np.uint32)
    key: Key = jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")
    return key
