"""Running a plan on data behind a door; the observed ledger must equal the planned one."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import numpy as np
import pandas as pd

from taciturn.engine.charging import Charged, ChargedTo, charging
from taciturn.engine.credit import credits_summation
from taciturn.engine.elsewhere import answered_elsewhere
from taciturn.engine.planning import Plan, check_parts, trusted_code
from taciturn.engine.processes import Processes, report_loss, versions
from taciturn.engine.program import Program, check_noise
from taciturn.engine.protocol import KEPT, Trace
from taciturn.engine.runtimes import serial, simulate
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel import door
from taciturn.kernel.noise import Stream
from taciturn.kernel.privacy import Certificate, Ledger, NoNoise
from taciturn.kernel.questions import check_of_library
from taciturn.kernel.records import Devices, Origin, Shards, digest_of_all, spread
from taciturn.typing import HostArray

Runtime = Literal["simulate", "serial"]


@dataclass(frozen=True, repr=False)
class Run:
    """A finished run.

    - `certificate`: The guarantee; stamped as a reproduction if the noise came from a given seed.
    - `origin`: Where the records came from, for the data custodian's checks; never pickled.
    """

    model: HostArray  # as released
    trace: Trace  # the parts of the public history that were kept
    ledger: Ledger  # the observed ledger, equal to the planned one
    certificate: Certificate
    plan: Plan
    seconds: float  # wall time of the run, compilation included
    charged: Charged | None = None  # to an account; None if not charged
    origin: Origin | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle or copy, without the origin, which reveals owners."""
        return {**self.__dict__, "origin": None}

    def __repr__(self) -> str:
        plan, parts = self.plan, self.trace._asdict()
        kept = [name for name, part in parts.items() if name != "records" and part is not None]
        return "\n".join(
            [
                f"Run of {type(plan.program.algorithm).__name__}: {plan.rounds} rounds, "
                f"{plan.spec.agents} agents, {self.seconds:.3g} s",
                *summary_lines(self.certificate, self.model),
                f"  kept of every round: {', '.join(kept) or 'nothing'}; to_frame() for its curves",
                f"  charged to: {'nothing' if self.charged is None else self.charged.account}",
            ]
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per round: public schedules, such as step sizes, and norms of models.

        If models were kept, `model_norm` is the norm after each round and `model_change` that of
        the change.

        **Guarantee.** Post-processing of public facts and of models that could be released.
        """
        index = pd.RangeIndex(1, self.plan.rounds + 1, name="round")
        columns = {
            name: np.asarray(values, np.float64)
            for name, values in self.plan.schedules.items()
            if np.shape(values) == (len(index),)
        }
        if self.trace.models is not None:
            models = np.asarray(jax.device_get(self.trace.models), np.float64)
            flat = models.reshape(len(index), -1)
            columns["model_norm"] = np.linalg.norm(flat, axis=1)
            columns["model_change"] = np.linalg.norm(np.diff(flat, axis=0, prepend=0), axis=1)
        return pd.DataFrame(columns, index=index)


def summary_lines(certificate: Certificate, model: HostArray) -> list[str]:
    """Return a certificate's guarantee in at most two lines, and a model's shape and norm."""
    norm = float(np.linalg.norm(np.asarray(model, np.float64)))
    return [
        *(f"  {line}" for line in certificate.lines()[: 1 + certificate.reproduction]),
        f"  model: shape {model.shape}, {model.dtype}, norm {norm:.4g}",
    ]


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
    trained_on: Origin | None = None,
) -> Run:
    """Run `plan` on `shards` and return the released model with its certificate.

    - `runtime`: "simulate" (vectorised) or "serial" (one agent at a time).
    - `seed`: None: noise and batches come from a cryptographic stream under a fresh key of the
      operating system, which is never stored, and the noise has its exact law. A number: a stream
      of the same law that anyone who knows the number can reproduce, so the run is stamped
      "reproduction, not private".
    - `keep`: Parts of the trace to keep, from `KEPT`. Single answers and messages are for the data
      custodian's audit: a certificate for the observer `sum` does not cover them.
    - `account`: A `taciturn.budget.Account` to charge before a record is read, or a reservation of
      `taciturn.engine.reserve` for this plan; None charges nothing.
    - `devices`: The devices to divide agents among, of this process or of several connected by
      `jax.distributed.initialize`; None for the default one. Every process calls this function with
      the same plan and gets the same result; one that fails must exit, since the others wait for
      it. The shards hold all agents, of which a process keeps its share, or that share alone
      (`taciturn.kernel.records.shards_of_process`). Only the first process takes an account; the
      others wait until its charge is on disk.
    - `trained_on`: For a plan on held-out records, the origin of the training records, which it
      must not query.

    Raises `InputError` if the shards are not those of the plan (counts, dimension, record norm),
    the agents cannot be divided among the devices, or the processes differ in plan, seed, devices
    or versions; `AccountError` if the account has no room. After the charge: `InputError` if
    processes have different records or a target does not suit the loss; `PrivacyError` if there is
    no seed and no exact sampler for the noise, the machine does not add integers exactly, a record
    exceeds the declared norm, the program asks more questions than planned, the ledgers differ, or
    the noise does not follow its law (`taciturn.kernel.privacy.drawn`). In each case nothing is
    released.
    """
    processes = Processes.of(devices)
    if account is not None and not processes.first:
        raise InputError(
            "a run is charged once, by the first process; give no account to the others"
        )
    if not keep <= set(KEPT):
        raise InputError(f"cannot keep {sorted(keep - set(KEPT))}; choose from {', '.join(KEPT)}")
    check_parts(plan.spec, plan.terms, plan.network)
    program = plan.program
    check_of_library(plan, plan.ledger, plan.certificate, *plan.bounds, program, program.network)
    check_bounds(plan)
    check_certificate(plan)
    door.check_facts(plan.spec, plan.terms, plan.program.template.dtype, shards)
    door.check_part(plan.part, shards.origin, trained_on)
    door.check_blocks(program.oracles, shards.origin)
    check_machine(plan.program, seed)
    if devices is not None:
        check_devices(plan.program, devices, serial=runtime == "serial")
    order = None if devices is None else [(one.process_index, one.id) for one in devices.devices]
    given = {"plan": plan.digest, "seed": seed, "keep": sorted(keep), "devices": order}
    processes.agree({**versions(), **given})
    with charging(account, plan, seed, shards.origin) as released, report_loss():
        # the first process arrives here once its charge is on disk
        if processes.count > 1:
            processes.agree_on_records("records", [digest_of_all(shards)])
        if devices is not None:
            shards = spread(shards, devices)
        origin = shards.origin
        private = records_for_door(plan, shards, trained_on=trained_on)
        del shards  # frees memory: the door has its own copy of the rows
        processes.agree({"records": "checked"})
        finished = _execute(
            plan, private, origin,
            seed=seed, runtime=runtime, devices=devices, keep=keep, report=report,
        )  # fmt: skip
        # the model is released only once every process has compared its ledger
        processes.agree({"ledger": "as planned"})
        return dataclasses.replace(finished, charged=released())


def _execute(  # noqa: PLR0913 - what is run, how, and where
    plan: Plan,
    private: door.Private,
    origin: Origin | None,
    *,
    seed: int | None,
    runtime: Runtime,
    devices: Devices | None,
    keep: frozenset[str],
    report: Callable[[Any], None] | None,
) -> Run:
    """Return the run of a plan on records, both checked; without a seed, with fresh randomness."""
    program, began = plan.program, time.perf_counter()
    live = door.Live(program.oracles, program.mechanism, private)
    stream = Stream.fresh() if seed is None else Stream.seeded(seed)
    slot = None if devices is None else devices.local(program.agents)
    supply = door.Supply(program.agenda, stream, private.rows, slot=slot)
    if not program.algorithm.runs_here:
        model, trace = answered_elsewhere(program, live, supply, keep=keep, report=report)
    elif runtime == "simulate":
        model, trace = simulate(program, live, supply, devices=devices, keep=keep, report=report)
    else:
        model, trace = serial(program, live, supply, keep=keep, report=report)
    supply.check_used(np.asarray(trace.records.drawn))
    released, seconds = np.asarray(model), time.perf_counter() - began
    ledger = door.observed_ledger(plan.ledger, trace.records)
    plan.ledger.same_as(ledger)
    trace = trace._replace(records=door.tested(plan.ledger, plan.certificate, trace.records))
    # a known seed reveals the noise or the division of the records
    known = seed is not None or (origin is not None and origin.reproducible)
    certificate = plan.certificate.stamped(reproduction=known or plan.certificate.reproduction)
    return Run(released, trace, ledger, certificate, plan, seconds, origin=origin)


def check_machine(program: Program, seed: int | None) -> None:
    """Raise `PrivacyError` unless this machine's arithmetic is the one that is certified.

    Neither a reproduction nor a run without randomness makes a claim.
    """
    quiet = isinstance(program.mechanism, NoNoise) and not door.samples(program.oracles)
    if seed is None and not quiet:
        door.check_exact_noise(program.oracles)
        door.check_arithmetic()


def check_devices(program: Program, devices: Devices, *, serial: bool) -> None:
    """Raise `InputError` unless this program's agents can be divided among the devices."""
    if serial:
        raise InputError("the runtime serial uses one device; leave out devices or the runtime")
    if not program.network.together:
        raise InputError(
            "on a relay agents answer one after another, so several devices gain nothing; run it "
            "on one"
        )
    devices.local(program.agents)


def records_for_door(
    plan: Plan, shards: Shards, *, trained_on: Origin | None = None, agent: int | None = None
) -> door.Private:
    """Return the data for the doors of `plan`, checked (`taciturn.kernel.door.opened`).

    The data are those of all agents, or of one. With noise, rows are in double precision; if an
    oracle sums over records, they are rounded to the digits at which such sums are exact.
    """
    program = plan.program
    return door.opened(
        program.oracles,
        program.mechanism,
        plan.spec,
        plan.terms,
        shards,
        precision=program.template.dtype,
        loss=program.algorithm.loss,
        part=plan.part,
        trained_on=trained_on,
        agent=agent,
    )


def check_bounds(plan: Plan) -> None:
    """Raise `PrivacyError` unless the program has the planned noise, bounds and questions.

    `InputError` if they do not suit the method, the public facts or an accountant (`Oracle.check`),
    or the noise is not the library's.
    """
    program = plan.program
    check_noise(program.mechanism, program.oracles, plan.certificate.epsilon)
    door.check_ledger(
        plan.ledger,
        program.oracles,
        program.mechanism,
        plan.spec,
        plan.terms,
        loss=program.algorithm.loss,
        rho=program.algorithm.step_rho,
    )
    questions = program.network.asked(np.asarray(program.questions))
    same = len(plan.bounds) == len(program.oracles)
    if not same or not np.array_equal(questions, plan.ledger.kind):
        raise PrivacyError("the program's questions are not the planned ones; plan again")


def check_certificate(plan: Plan) -> None:
    """Raise `PrivacyError` unless the certificate follows from the ledger.

    For the observer of sums, agents must send integer lattice steps and the method must be
    creditable. The caller states further conditions.
    """
    program = plan.program
    if program.summed and not credits_summation(program):
        raise PrivacyError("this method's answers may not be added up as a sum; plan again")
    exponents = np.asarray(program.exponents)
    if program.summed and np.any(exponents != exponents[..., :1]):
        raise PrivacyError("whole steps of different sizes cannot be added up; plan again")
    if isinstance(program.mechanism, NoNoise):
        if not math.isinf(plan.certificate.epsilon):
            raise PrivacyError("the certificate promises what a run without noise does not keep")
        return
    if not set(trusted_code(program)) <= set(plan.certificate.conditions):
        raise PrivacyError("the plan does not say whose code is trusted with records; plan again")
    door.check_certificate(plan.certificate, plan.leg, plan.terms)
