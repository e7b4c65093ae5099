"""A run: a plan and data behind a door; the observed ledger must equal the planned one."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from taciturn.engine.charging import Charged, ChargedTo, charging
from taciturn.engine.credit import certificate_of, credits_summation
from taciturn.engine.door import Live, Private, samples
from taciturn.engine.mesh import check_devices, simulate_over, streamed_over
from taciturn.engine.planning import Plan, check_parts
from taciturn.engine.processes import Processes, report_loss, versions
from taciturn.engine.program import Program
from taciturn.engine.protocol import KEPT, Trace, observed_ledger, tested
from taciturn.engine.runtimes import serial, simulate, streamed
from taciturn.engine.shown import ShownRun
from taciturn.engine.supply import Supply
from taciturn.errors import InputError, PrivacyError
from taciturn.noise import Stream
from taciturn.oracles import Oracle, check_of_library
from taciturn.privacy import Certificate, Ledger, Mechanism, Messages, NoNoise
from taciturn.problems import (
    Devices,
    Origin,
    Shards,
    check_at_agents,
    check_norms,
    digest_of_all,
    for_exact_sums,
    spread,
)
from taciturn.problems.memory import device_array, held_here, on_host, own_array, stays_in_cache
from taciturn.typing import HostArray


def check_targets(plan: Plan, shards: Shards) -> None:
    """Raise `InputError` if a record's target is not one that the loss of the method has.

    A margin loss, for instance, has the targets -1 and 1: with 0 and 1 it would learn from half of
    the records, and nothing else would tell.

    Notes
    -----
    **Guarantee.** Privacy does not rest on this check: the questions hold their bounds whatever the
    targets are (`Loss.within_domain`, clipped coefficients). What matters is that its outcome tells
    nothing for free. It depends on private targets, so it is made as the norms are checked: behind
    the charge, which stays. And it is constant on the data sets that are neighbours: which targets
    there are is declared public, a record that is replaced has one of them, and everything of
    this library that packs a table, a data set or an estimator's targets maps declared labels to
    those of the loss before that. Only targets that were packed by hand can fail it, those of a
    data set outside the declared universe, like rows that are not finite.
    """
    loss = plan.program.algorithm.loss
    if loss is not None:
        real = on_host(shards.stacked.mask) > 0
        loss.check_targets(on_host(shards.stacked.targets)[real])


_ROWS, _COLUMNS, _OUTPUTS = 500, 97, 10
_ROW_DIGITS, _WEIGHT_DIGITS = 18, 26


def check_arithmetic() -> None:
    """Raise `PrivacyError` unless matrix products of double precision are exact where they can be.

    Products of 18 by 26 digits, 500 of them in a sum, stay below 2^53: every order of adding them
    gives the same whole number (`taciturn.problems.grid`), on a machine that keeps IEEE 754. One
    that multiplies in fewer digits does not, and no certificate holds on it. Looked at before
    every run: JAX's settings can change between two.

    **Guarantee.** The bound |partial sum| <= 2^p 2^q n <= 2^53 holds of every subset of the terms,
    so of every partial sum in every tree of additions: of vector lanes, cores, devices or
    processes. So answers do not depend on how a run is divided. Sums of messages over agents come
    after the noise; those of whole steps, in 64 bits, are exact modulo 2^64 in any order, others
    differ between orders in their last digits, which is post-processing.
    """
    draw = np.random.default_rng(0)
    rows = draw.integers(-(2**_ROW_DIGITS), 2**_ROW_DIGITS, (_ROWS, _COLUMNS))
    one, several = (
        draw.integers(-(2**_WEIGHT_DIGITS), 2**_WEIGHT_DIGITS, shape)
        for shape in ((_ROWS,), (_ROWS, _OUTPUTS))
    )
    point = draw.integers(-(2**_WEIGHT_DIGITS), 2**_WEIGHT_DIGITS, (_COLUMNS,))
    computed = _products(*(own_array(part, np.float64) for part in (rows, one, several, point)))
    truth = (one @ rows, rows.T @ several, rows @ point)
    for ours, exact in zip(computed, truth, strict=True):
        if ours.dtype != jnp.float64 or not np.array_equal(np.asarray(ours), exact):
            raise PrivacyError(
                f"this machine ({jax.default_backend()}) rounds sums of whole numbers below 2^53: "
                "no certificate holds for what it computes; run on a CPU in double precision"
            )


@jax.jit
def _products(
    rows: jax.Array, one: jax.Array, several: jax.Array, point: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    return jnp.matmul(one, rows), jnp.matmul(several.T, rows).T, rows @ point


Runtime = Literal["simulate", "serial"]


@dataclass(frozen=True, repr=False)
class Run(ShownRun):
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
    charged
        Where it was charged; None if nowhere.
    origin
        Where the records came from, for the data custodian's own checks; it is not pickled.
    """

    model: HostArray
    trace: Trace
    ledger: Ledger
    certificate: Certificate
    plan: Plan
    seconds: float
    charged: Charged | None = None
    origin: Origin | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled and copied: not the origin, which says whose each record is."""
        return {**self.__dict__, "origin": None}


def run(  # noqa: PLR0913 - what is run, how, and who pays
    plan: Plan,
    shards: Shards,
    *,
    runtime: Runtime,
    seed: int | None = None,
    keep: frozenset[str] = frozenset(),
    report: Callable[[Any], None] | None = None,
    account: ChargedTo | None = None,
    devices: Devices | None = None,
) -> Run:
    """Run `plan` on `shards` and return the released model, with its certificate.

    Parameters
    ----------
    runtime
        "simulate" (vectorised) or "serial" (one agent at a time).
    seed
        None: noise and batches come from a cryptographic stream under a fresh key of the operating
        system, which is written nowhere, and the noise has its exact law. A number: quick floating-
        point noise, which can be drawn again by whoever knows the number, so the run is stamped
        "reproduction, not private".
    keep
        Parts of the trace to keep, of `KEPT`. Single answers and messages are for the
        data custodian's audit: a certificate for the observer `sum` does not cover them.
    account
        A `taciturn.budget.Account` that the run is charged to before a record is looked at, or a
        reservation of `taciturn.engine.reserve` for this plan; None charges it nowhere.
    devices
        Those that agents are divided among, of this process or of several that
        `jax.distributed.initialize` connected; None for the usual one. Every process calls this
        function with the same plan and has the same result; one that fails must exit, since the
        others wait for it. Its shards may hold all agents, of
        which it keeps its own, or these alone (`taciturn.problems.spread_local`). The first process
        alone is given an account: the others wait until the charge is on its disk.

    Raises
    ------
    InputError
        If the shards differ from those of the plan (counts, dimension, record norm), or the
        account has no room (`AccountError`). If the agents cannot be divided among the devices, or
        the processes were given different plans, seeds, devices or versions, which is compared
        before the charge; after it, if they have different records, or a target is none of the
        loss (`taciturn.engine.running`).
    PrivacyError
        If no seed is given and no exact sampler is known for the noise (inside an objective), or
        the machine does not add whole numbers exactly; if a
        record breaks the norm that the shards promise, the program asks for more than was
        planned, the observed ledger differs from the planned one, or the noise that was drawn does
        not have its law (`taciturn.privacy.drawn`). Nothing is returned then.
    """
    processes = Processes.of(devices)
    if account is not None and not processes.first:
        raise InputError(
            "a run is charged once, by the first process; give no account to the others"
        )
    _check(plan, shards, seed, keep)
    execute = partial(_executed, runtime=runtime, keep=keep, report=report)
    if devices is not None:
        check_devices(plan.program, devices, serial=runtime == "serial")
        execute = partial(_spread, devices=devices, keep=keep, report=report)
    processes.agree(_facts(plan, seed, keep, devices))
    with charging(account, plan, seed, shards.origin) as released, report_loss():
        # the first process comes here once its charge is on the disk
        if processes.count > 1:
            processes.agree_on_records("records", [digest_of_all(shards)])
        if devices is not None:
            shards = spread(shards, devices)
        check_shards(shards)
        check_targets(plan, shards)
        origin = shards.origin
        private = behind_the_door(plan, shards)
        del shards  # which may be many, and only the door's own rows are needed from here on
        processes.agree({"records": "checked"})
        finished = _stamped(_answered(plan, private, seed, execute), origin)
        # a model that was computed is released once all have compared its ledger
        processes.agree({"ledger": "as planned"})
        return dataclasses.replace(finished, charged=released())


def _stamped(finished: Run, origin: Origin | None) -> Run:
    """Return a run with the origin of its records, stamped where a public seed divided them."""
    certificate = finished.certificate
    if origin is not None and origin.reproducible:
        certificate = dataclasses.replace(certificate, reproduction=True, attacker_tpr=1.0)
    return dataclasses.replace(finished, certificate=certificate, origin=origin)


def _check(plan: Plan, shards: Shards, seed: int | None, keep: frozenset[str]) -> None:
    """Raise unless the plan can be run so on shards of which no record was looked at."""
    if not keep <= set(KEPT):
        raise InputError(f"cannot keep {sorted(keep - set(KEPT))}; choose from {', '.join(KEPT)}")
    check_parts(plan.spec, plan.terms, plan.network)
    check_of_library(plan, plan.ledger, plan.certificate, *plan.bounds, plan.program.network)
    check_bounds(plan)
    check_certificate(plan)
    check_facts(plan, shards)
    check_machine(plan.program, seed)


def _facts(
    plan: Plan, seed: int | None, keep: frozenset[str], devices: Devices | None
) -> dict[str, Any]:
    """Return what all processes of a run must say alike, before it is charged."""
    order = None if devices is None else [(one.process_index, one.id) for one in devices.devices]
    return {**versions(), "plan": plan.digest, "seed": seed, "keep": sorted(keep), "devices": order}


def _answered(
    plan: Plan,
    private: Private,
    seed: int | None,
    execute: Callable[[Program, Private, int | None], tuple[Any, Trace]],
) -> Run:
    """Return the run of a plan on records, both of which were checked."""
    began = time.perf_counter()
    model, trace = execute(plan.program, private, seed)
    released = np.asarray(model)
    seconds = time.perf_counter() - began
    ledger = observed_ledger(plan.ledger, trace.records)
    plan.ledger.same_as(ledger)
    certificate = plan.certificate
    trace = tested(plan.ledger, certificate, trace)
    # whoever knows the seed subtracts the noise; what is stamped stays so
    if seed is not None or certificate.reproduction:
        certificate = dataclasses.replace(certificate, reproduction=True, attacker_tpr=1.0)
    return Run(released, trace, ledger, certificate, plan, seconds)


def check_machine(program: Program, seed: int | None) -> None:
    """Raise `PrivacyError` unless this machine can draw the noise that was planned."""
    if not is_quick(program, seed):
        check_exact_noise(program)
        check_arithmetic()


def is_quick(program: Program, seed: int | None) -> bool:
    """Whether all randomness is quick: there is a seed, or nothing random at all."""
    quiet = isinstance(program.mechanism, NoNoise) and not samples(program.oracles)
    return seed is not None or quiet


def _executed(
    program: Program,
    private: Private,
    seed: int | None,
    *,
    runtime: Runtime,
    keep: frozenset[str],
    report: Callable[[Any], None] | None,
) -> tuple[Any, Trace]:
    """Return model and trace; without a seed all randomness is from a fresh stream."""
    if is_quick(program, seed):
        door = Live(program.oracles, program.mechanism, jax.random.key(seed or 0))
        execute = simulate if runtime == "simulate" else serial
        return execute(program, door, private, keep=keep, report=report)
    door = Live(program.oracles, program.mechanism, None)
    supply = Supply(program, Stream.fresh(), private.shard.mask.shape[-1])
    if runtime == "simulate":
        return streamed(program, door, private, supply, keep=keep, report=report)
    return serial(program, door, private, keep=keep, report=report, supply=supply)


def _spread(
    program: Program,
    private: Private,
    seed: int | None,
    *,
    devices: Devices,
    keep: frozenset[str],
    report: Callable[[Any], None] | None,
) -> tuple[Any, Trace]:
    """Return model and trace, computed by several devices, as `_executed` by one."""
    if is_quick(program, seed):
        door = Live(program.oracles, program.mechanism, jax.random.key(seed or 0))
        return simulate_over(program, door, private, devices, keep=keep)
    rows, own = private.shard.mask.shape[-1], devices.local(program.agents)
    supply = Supply(program, Stream.fresh(), rows, slot=own)
    return streamed_over(program, private, supply, devices, keep=keep, report=report)


def check_exact_noise(program: Program) -> None:
    """Raise `PrivacyError` unless the noised answers have the law that the certificate is of."""
    for oracle in program.oracles:
        if not oracle.holds_on_machine():
            raise PrivacyError(
                f"no certificate holds yet for what {type(oracle).__name__} computes here: how far "
                "rounding moves it is not known. Give a seed for a reproduction, use a method that "
                "adds its noise to a gradient, keep a set without a closed form at the server, or "
                "let a question of your own say itself that it is exact (exact_on_machine)"
            )


def behind_the_door(plan: Plan, shards: Shards) -> Private:
    """Return the data for the doors of `plan`; raise `InputError` for other shards than planned.

    With noise they are in double precision, cut to the digits at which sums over records are exact,
    if an oracle has such sums.
    """
    check_facts(plan, shards)
    return opened(plan.program.oracles, plan.program.mechanism, shards)


def check_facts(plan: Plan, shards: Shards) -> None:
    """Raise `InputError` unless the public facts about the shards are those of the plan.

    `PrivacyError` for shards that `pack` did not make: whose record each row is, nobody knows.
    """
    spec, program = plan.spec, plan.program
    _check_origin(plan, shards.origin)
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


def _check_origin(plan: Plan, origin: Origin | None) -> None:
    """Raise unless the records were divided, and persons packed, as the plan takes them to be."""
    if origin is None:
        raise PrivacyError(
            "these shards do not say where their records come from, so one could be in two "
            "answers; make them with pack"
        )
    planned = plan.terms.adjacency.rows_per_person
    if origin.rows_per_person != planned:
        packed, wanted = (
            "records" if rows is None else f"persons with {rows} places each"
            for rows in (origin.rows_per_person, planned)
        )
        raise InputError(
            f"the plan protects {wanted}, and the shards were packed for {packed}; pack them with "
            "the persons of the plan, or plan again"
        )
    check_at_agents(origin.agents_per_person, plan.terms.adjacency.agents_per_person)
    if origin.dealt != plan.spec.dealt:
        done, wanted = (
            "dealt at random" if it else "given" for it in (origin.dealt, plan.spec.dealt)
        )
        raise InputError(
            f"the plan is for records whose agents are {wanted}, and these are {done}; plan with "
            "the facts of the shards (public_facts)"
        )


def opened(oracles: tuple[Oracle, ...], mechanism: Mechanism, shards: Shards) -> Private:
    """Return all agents' records as a door for these questions and this noise takes them.

    **Guarantee.** Rows on a grid are kept in single precision only where that holds all of their
    digits, and every question widens what it reads of them. Rows that stay in a processor's cache
    are kept wide, which is quicker.
    """
    if isinstance(mechanism, NoNoise):
        return Private(shards.stacked, own_array(shards.counts, shards.stacked.features.dtype))
    rows = shards.stacked.mask.shape[-1]
    slots = max(oracle.sampling.slots(rows) for oracle in oracles)
    narrow = all(oracle.takes_narrow_rows() for oracle in oracles)
    narrow &= not stays_in_cache(shards.stacked.features.size)
    shard = for_exact_sums(shards, slots=slots, narrow=narrow)
    if not any(oracle.sums_records for oracle in oracles):
        given = shards.stacked.features
        wide = device_array(on_host(given).astype(np.float64), given)
        shard = dataclasses.replace(shard, features=wide, grid=None)
    return Private(shard, own_array(shards.counts, np.float64))


def check_shards(shards: Shards) -> None:
    """Raise `PrivacyError` unless the records are what the sensitivity bounds take them for.

    Every row, masked or not, has norm at most R (and is a number), every mask is 0 or 1, and there
    is one block of rows per public count, with no more records than that.
    """
    check_norms(shards.stacked, shards.record_norm)
    mask = on_host(shards.stacked.mask)
    if not np.all((mask == 0) | (mask == 1)):
        raise PrivacyError("a mask is neither 0 nor 1, so a record would be weighted; pack again")
    if not np.all(np.isfinite(on_host(shards.stacked.targets))):
        raise PrivacyError("a target is not finite, so an answer would tell of it; pack again")
    blocks = len(shards.stacked.mask)
    if blocks != len(shards.counts):
        raise PrivacyError(
            f"there are {blocks} blocks of records for {len(shards.counts)} counts; pack again"
        )
    held = np.array(shards.counts)[held_here(shards.stacked.mask)]
    if mask.shape[1] != max(shards.counts) or np.any(np.count_nonzero(mask, axis=1) > held):
        raise PrivacyError("an agent has more records than its public count; pack again")


def check_bounds(plan: Plan) -> None:
    """Raise `PrivacyError` unless the program has the noise and the bounds that were planned.

    `InputError` if they do not suit the method, the public facts or an accountant (`Oracle.check`).
    """
    oracles, noise = plan.program.oracles, type(plan.program.mechanism)
    if noise is not type(plan.ledger.mechanism):
        raise PrivacyError(
            f"the program adds {noise.__name__} noise, the plan has "
            f"{type(plan.ledger.mechanism).__name__}; plan again"
        )
    same = len(oracles) == len(plan.bounds)
    for number, (oracle, bound) in enumerate(zip(oracles, plan.bounds, strict=False)):
        loss, rho = plan.program.algorithm.loss, plan.program.algorithm.step_rho
        Oracle.check(oracle, plan.spec, bound.adjacency, norm=bound.norm, loss=loss, rho=rho)
        fresh = oracle.bound(plan.spec, bound.adjacency, norm=bound.norm)
        charged = np.where(plan.ledger.kind == number, plan.ledger.sensitivity, np.inf)
        same = same and bool(np.all(fresh.value <= np.minimum(bound.value, charged)))
    questions = plan.program.network.asked(np.asarray(plan.program.questions))
    if not same or not np.array_equal(questions, plan.ledger.kind):
        raise PrivacyError("the program's questions are not the planned ones; plan again")


def check_certificate(plan: Plan) -> None:
    """Raise `PrivacyError` unless the certificate is what the ledger amounts to.

    For the observer of sums only where agents send whole steps, and the method may be summed.
    Further conditions are the caller's to state.
    """
    program, terms = plan.program, plan.terms
    if program.summed and not credits_summation(program):
        raise PrivacyError("this method's answers may not be added up as a sum; plan again")
    exponents = np.asarray(program.exponents)
    if program.summed and np.any(exponents != exponents[..., :1]):
        raise PrivacyError("whole steps of different sizes cannot be added up; plan again")
    if isinstance(program.mechanism, NoNoise):
        if not math.isinf(plan.certificate.epsilon):
            raise PrivacyError("the certificate promises what a run without noise does not keep")
        return
    observer = terms.observer if program.summed else Messages()
    fresh = certificate_of(
        plan.ledger,
        program.oracles,
        terms,
        observer,
        program.network,
        dealt=plan.spec.dealt,
    )
    given = plan.certificate
    # equal only if it states what it is conditional on itself
    fresh = fresh.under(given.conditions, conditional=given.conditional)
    # a stamped one, of an earlier run with a seed, promises nothing
    if fresh != given and not given.reproduction:
        raise PrivacyError("the plan's certificate is not what its ledger amounts to; plan again")
