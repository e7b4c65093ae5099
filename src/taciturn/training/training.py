"""One private training run, from a proposal to its model, certificate and metrics.

Model, certificate and trace are handed over before anything else is computed. What follows may
fail without losing them.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np

from taciturn.algorithms import METHODS, Centred, Method
from taciturn.budget import Account, Reservation
from taciturn.datasets import Dataset
from taciturn.engine import ChargedTo, Plan, Run, check_chargeable, reserve, returned_on_error, run
from taciturn.engine.running import check_devices
from taciturn.errors import InputError
from taciturn.evaluation import check_covered, evaluation_plan, with_evaluation
from taciturn.features import AroundCentre
from taciturn.privacy import delta_warning
from taciturn.problems import Devices, Draw, origin_of
from taciturn.problems.memory import give_back
from taciturn.proposal import Proposal, Request, StructureRequest, centre_warning
from taciturn.proposal.forecast import known_forecast, risk_warning
from taciturn.tables import Table
from taciturn.training.assessment import UNMEASURED
from taciturn.training.data import DividedData, check_data, divide_records, inputs_for, proposal_for
from taciturn.training.division import Division
from taciturn.training.measuring import Attempts, measure_training
from taciturn.training.result import Training
from taciturn.typing import HostArray


def train(  # noqa: PLR0913 - what is run, and who is told what
    data: DividedData,
    proposal: Proposal,
    *,
    reference: bool,
    oracle: bool = False,
    seed: int | None = None,
    report: Callable[[Any], None] | None = None,
    methods: Mapping[str, Method] = METHODS,
    warn: Callable[[str], None] | None = None,
    account: ChargedTo | None = None,
    release: Callable[[Training], None] | None = None,
) -> Training:
    """Return the training that a proposal describes, on the records it was written for.

    Parameters
    ----------
    reference
        Whether to compute the non-private optimum of the same records too, where the data set is
        published or oracle metrics are asked for.
    oracle
        Whether to compute metrics on private records: without noise, outside the certificate. Those
        on published data sets are always computed.
    seed
        Of the noise; None for the operating system's entropy. With a seed the certificate says
        "reproduction, not private".
    report
        Called with the number of finished rounds.
    warn
        Called with each warning before a record is read, and with a line for each later step that
        failed.
    account
        What the run is charged to before its door opens, or a reservation for this plan; None
        charges it nowhere.
    release
        Called with the training, without metrics or evaluation, once its account is closed and
        before anything else is computed. In the first process alone.

    Notes
    -----
    Among several processes (`local_part`) all call this together, the first one alone with an
    account; the curves are computed there.

    **Guarantee.** After the run, a private table's records are read by its evaluation, through the
    door, and by nothing else unless `oracle`. Once the run has ended, no error of a later step is
    raised: `failures` has its line. The certificate covers an evaluation from the start, and so
    also one that answered and then failed.
    """
    check_data(data, proposal)
    if reference and not (oracle or data.dataset.public):
        raise InputError(
            "the optimum without privacy is a function of private records; ask for oracle metrics "
            "too, or leave the reference out"
        )
    began = time.perf_counter()
    plan = proposal.plan(methods)
    last = evaluation_plan(proposal, plan) if proposal.asks else None
    warnings = _warn_before(proposal, plan, methods, warn)
    devices = _devices_for(data, plan, reference=reference)
    if isinstance(account, Account):
        account = _begin_reservation(account, data, proposal, plan, seed)
    keep = frozenset({"models", "publics"} if proposal.centre else {"models"})
    shards = data.shards(proposal.precision, centre=proposal.centre)
    finished = run(
        plan,
        shards,
        runtime="simulate",
        seed=seed,
        keep=keep,
        report=report,
        account=account,
        devices=devices,
    )
    first = devices is None or jax.process_index() == 0
    training = _training_of(finished, data, proposal, last, warnings, began)
    attempts = Attempts(warn)
    if release is not None and first:
        attempts.attempt("writing what was released", partial(release, training), None)
    attempts.attempt("returning memory", give_back, None)
    rows = None if proposal.centre else shards
    del shards  # around a centre, before others take their place
    training = measure_training(
        training,
        data,
        rows,
        attempts,
        trained_on=finished.origin,
        seed=seed,
        reference=reference,
        oracle=oracle,
        curves=first,
    )
    return dataclasses.replace(
        training, failures=tuple(attempts.failures), private_failures=tuple(attempts.private)
    )


def _training_of(
    finished: Run,
    data: DividedData,
    proposal: Proposal,
    last: Plan | None,
    warnings: tuple[str, ...],
    began: float,
) -> Training:
    """Return what a run released; of `data` nothing but public facts is read.

    `last` is the plan of the evaluation, if there is one.
    """
    features = data.features
    if proposal.centre:
        features = AroundCentre(inputs_for(data.dataset), features, _centre_of(finished))
    stated = (*data.dataset.conditions, *proposal.conditions)
    certificate = finished.certificate.under(stated, conditional=proposal.conditional)
    covering = None
    if last is not None:
        covering = with_evaluation(proposal, certificate, last.certificate)
    return Training(
        proposal=proposal,
        dataset=data.dataset,
        features=features,
        plan=dataclasses.replace(finished.plan, certificate=certificate),
        model=finished.model,
        models=np.asarray(finished.trace.models),
        metrics=UNMEASURED,
        curves={},
        nonprivate=None,
        seconds=time.perf_counter() - began,
        warnings=warnings,
        charged=finished.charged,
        covering=covering,
    )


def _centre_of(finished: Run) -> HostArray:
    """Return the centre that a run released, without the place of the constant."""
    algorithm, publics = finished.plan.program.algorithm, finished.trace.publics
    assert isinstance(algorithm, Centred)
    last = jax.tree.map(lambda leaf: np.asarray(leaf)[-1], publics)
    return np.asarray(jax.jit(Centred.centre)(algorithm, last), np.float64)[:-1]


def _devices_for(data: DividedData, plan: Plan, *, reference: bool) -> Devices | None:
    """Return the devices that agents are divided among, if they are, once they suit the plan."""
    if data.local is None:
        return None
    check_devices(plan.program, data.local.devices, serial=False)
    if reference:
        raise InputError("the optimum without privacy is computed in one process; leave it out")
    return data.local.devices


def _warn_before(
    proposal: Proposal,
    plan: Plan,
    methods: Mapping[str, Method],
    warn: Callable[[str], None] | None,
) -> tuple[str, ...]:
    """Return the warnings of a proposal, each handed to `warn`."""
    warnings = (
        *warnings_of(proposal),
        *risk_warning(proposal, known_forecast(proposal, plan, methods)),
        *centre_warning(proposal, plan),
    )
    if warn is not None:
        for warning in warnings:
            warn(warning)
    return warnings


def _begin_reservation(
    account: Account, data: DividedData, proposal: Proposal, plan: Plan, seed: int | None
) -> Reservation:
    """Return the reservation for a training, after which records may be read."""
    check_chargeable(seed=seed, conditional=False, origin=origin_of(data.owners))
    bound = account.for_table(data.dataset.columns)
    reservation = reserved(bound, proposal, plan, seed=seed, what=data.dataset.title)
    with returned_on_error(reservation):
        reservation.begin()
    return reservation


def reserved(
    account: Account, proposal: Proposal, plan: Plan, *, seed: int | None, what: str
) -> Reservation:
    """Return the reservation for a proposal with that plan, before a record is read.

    An evaluation is paid for with the training (`taciturn.evaluation.check_covered`).
    """
    check_covered(proposal, plan)
    return reserve(
        account,
        plan,
        seed=seed,
        what=f"{proposal.method.name} on {what}",
        proposal=proposal.digest,
        conditional=proposal.conditional,
    )


def train_on(
    dataset: Dataset | Table,
    request: Request,
    *,
    agents: int | None = None,
    reference: bool = False,
    seed: int | None = None,
    features: str | None = None,
) -> Training:
    """Return the training that a request asks for; the rest is as for `train` and `Division`."""
    division = Division.of_request(request, agents, features=features)
    data = divide_records(dataset, division, Draw.for_noise(seed, request.split_seed))
    proposal = proposal_for(data, request, StructureRequest())
    return train(data, proposal, reference=reference, seed=seed, methods=request.methods)


def warnings_of(proposal: Proposal) -> tuple[str, ...]:
    """Return the warnings that a proposal deserves: about delta and bounds."""
    table = proposal.data.table
    unit = "persons" if proposal.budget.unit == "person" else "records"
    units = proposal.records // (proposal.budget.rows_per_person or 1)
    return (
        *delta_warning(proposal.budget.delta, units, unit),
        *((_FILLED_IN,) if table is not None and table.source == "data" else ()),
    )


_FILLED_IN = (
    "the certificate is conditional: the bounds file was filled in from the records; put "
    'public ranges and lists in their place and write source = "public"'
)
