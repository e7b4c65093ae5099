"""One private training run: its plan, its model, its certificate and its metrics."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tacit.algorithms import METHODS, Centred, Method
from tacit.budget import Account, Reservation
from tacit.datasets import Dataset
from tacit.engine import (
    Charged,
    ChargedTo,
    Plan,
    Run,
    check_masks,
    reserve,
    returned_on_error,
    run,
)
from tacit.engine.mesh import check_devices
from tacit.errors import InputError
from tacit.evaluation import Evaluated, PrivateScore, check_covered, evaluate, scale_of
from tacit.features import FeatureMap
from tacit.privacy import Certificate, delta_warning
from tacit.problems import Devices
from tacit.problems.memory import give_back
from tacit.proposal import (
    Proposal,
    Request,
    StructureRequest,
    centre_warning,
    feature_conditions,
    graph_conditions,
    graph_warning,
    labels_of,
    weight_conditions,
)
from tacit.proposal.forecast import known_forecast, risk_warning
from tacit.tables import Table
from tacit.training.agreement import check_data
from tacit.training.assessment import Assessment
from tacit.training.data import (
    DividedData,
    divide,
    proposal_for,
    target_scale,
)
from tacit.training.metrics import Metrics, curves_on_test, measure, optimum
from tacit.training.shown import ShownTraining
from tacit.typing import HostArray


@dataclass(frozen=True, repr=False)
class Training(ShownTraining):
    """A finished training run.

    Attributes
    ----------
    curves
        `test_error` and `test_loss` of the released model after every round, `(T,)` each; empty
        where there are no test records.
    nonprivate
        The optimum of the same records without privacy; None if it was not computed.
    features
        The feature map that the model is linear in, if any.
    plan
        With the certificate of the run by itself.
    seconds
        Wall time of planning, running and measuring; the non-private optimum is not counted.
    warnings
        What was said before a record was read.
    charged
        Where the run was charged; None if nowhere.
    evaluation
        What held-out records were asked; None if nothing was held out.
    choice
        The certificate of all trainings that this one was picked from, and of the choice; None if
        it was the only one.
    """

    proposal: Proposal
    dataset: Dataset | Table
    features: FeatureMap | None
    plan: Plan
    model: HostArray
    metrics: Metrics
    curves: dict[str, HostArray]
    nonprivate: Metrics | None
    seconds: float
    warnings: tuple[str, ...]
    charged: Charged | None = None
    evaluation: Evaluated | None = None
    choice: Certificate | None = None

    @property
    def certificate(self) -> Certificate:
        """The certificate of everything: conditions, evaluation or choice, the stamp of a seed."""
        if self.choice is not None:
            return self.choice
        return self.plan.certificate if self.evaluation is None else self.evaluation.certificate

    @property
    def private_score(self) -> PrivateScore | None:
        """How good the model is, by noised counts of held-out records; None without any."""
        return None if self.evaluation is None else self.evaluation.score

    @property
    def assessment(self) -> Assessment | None:
        """How well the model does on the test records; None where that may not be shown."""
        return self.metrics.assessment if self.shows_test else None

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """The warnings, and those about the test records where these may be shown."""
        return (*self.warnings, *(() if self.assessment is None else self.assessment.warnings))

    @property
    def shows_test(self) -> bool:
        """Whether test metrics may be shown: the test records are published or declared public."""
        declared = self.dataset.public or isinstance(self.dataset, Table)
        return declared and not math.isnan(self.metrics.test_error)


def train(  # noqa: PLR0913 - what is run, and who is told what
    data: DividedData,
    proposal: Proposal,
    *,
    reference: bool,
    seed: int | None = None,
    report: Callable[[Any], None] | None = None,
    methods: Mapping[str, Method] = METHODS,
    warn: Callable[[str], None] | None = None,
    account: ChargedTo | None = None,
    masks: bool = False,
) -> Training:
    """Return the training that a proposal describes, on the records it was written for.

    Parameters
    ----------
    reference
        Whether to compute the non-private optimum of the same records too.
    seed
        Of the noise; None for the operating system's entropy. With a seed the certificate says
        "reproduction, not private".
    report
        Called with the number of finished rounds.
    methods
        The table that the method's name is looked up in.
    warn
        Called with each warning before a record is read.
    account
        What the run is charged to before its door opens, or a reservation for this plan; None
        charges it nowhere.
    masks
        Whether the agents' words travel under masks in this process, too (`tacit.engine.run`).

    Notes
    -----
    Where the records are those of this process's agents (`divide_local`), all processes call this
    together, the first one alone with an account; the curves are computed there.

    Raises
    ------
    InputError
        If the proposal is for other records, no such plan exists, or the account cannot hold it.
    """
    check_data(data, proposal)
    began = time.perf_counter()
    plan = proposal.plan(methods)
    told = _told(proposal, plan, methods, warn)
    if masks:
        check_masks(plan)
    devices = _devices_for(data, plan, masks=masks, reference=reference)
    if isinstance(account, Account):
        account = _begun(account, data, proposal, plan, seed)
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
        masks=masks,
        devices=devices,
    )
    give_back()
    problem = proposal.problem
    if proposal.centre:
        del shards  # before others take their place
        data = data.around(_centre_of(finished))
        shards = data.shards(proposal.precision)
    metrics, shown = measure(problem, data, shards, finished.model), _is_first(devices)
    curves = curves_on_test(problem, data, np.asarray(finished.trace.models)) if shown else {}
    certificate = dataclasses.replace(
        finished.certificate,
        conditions=(
            *data.dataset.conditions,
            *graph_conditions(proposal.structure),
            *weight_conditions(proposal.class_weights),
            *feature_conditions(proposal.data.features),
        ),
        conditional=proposal.conditional,
    )
    plan = dataclasses.replace(plan, certificate=certificate)
    evaluation = _evaluated(proposal, plan, data, finished.model, seed)
    seconds = time.perf_counter() - began
    nonprivate = optimum(problem, data) if reference else None
    return Training(
        proposal=proposal,
        dataset=data.dataset,
        features=data.features,
        plan=plan,
        model=finished.model,
        metrics=metrics,
        curves=curves,
        nonprivate=nonprivate,
        seconds=seconds,
        warnings=told,
        evaluation=evaluation,
        charged=finished.charged,
    )


def _is_first(devices: Devices | None) -> bool:
    return devices is None or jax.process_index() == 0


def _devices_for(data: DividedData, plan: Plan, *, masks: bool, reference: bool) -> Devices | None:
    """Return the devices that agents are divided among, if they are, once they suit the plan."""
    if data.local is None:
        return None
    check_devices(plan.program, data.local.devices, serial=False, masks=masks)
    if reference:
        raise InputError("the optimum without privacy is computed in one process; leave it out")
    return data.local.devices


def _told(
    proposal: Proposal,
    plan: Plan,
    methods: Mapping[str, Method],
    warn: Callable[[str], None] | None,
) -> tuple[str, ...]:
    """Return the warnings of a proposal, each told."""
    told = (
        *warnings_of(proposal),
        *risk_warning(proposal, known_forecast(proposal, plan, methods)),
        *centre_warning(proposal, plan),
    )
    if warn is not None:
        for warning in told:
            warn(warning)
    return told


def _begun(
    account: Account, data: DividedData, proposal: Proposal, plan: Plan, seed: int | None
) -> Reservation:
    """Return the reservation for a training, after which records may be read."""
    bound = account.for_table(data.dataset.columns)
    reservation = reserved(bound, proposal, plan, seed=seed, what=data.dataset.title)
    with returned_on_error(reservation):
        reservation.begin()
    return reservation


def reserved(
    account: Account, proposal: Proposal, plan: Plan, *, seed: int | None, what: str
) -> Reservation:
    """Return the reservation for a proposal with that plan, before a record is read.

    An evaluation is paid for with the training (`tacit.evaluation.check_covered`).
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


def _evaluated(
    proposal: Proposal,
    plan: Plan,
    data: DividedData,
    model: HostArray,
    seed: int | None,
) -> Evaluated | None:
    """Return what held-out records say of a model that was released; None without any."""
    if not proposal.asks:
        return None
    scale = scale_of(proposal, labels_of(proposal.data), target_scale(data.dataset)[0])
    devices = None if data.local is None else data.local.devices
    return evaluate(proposal, plan, model, data.evaluated(), scale, seed=seed, devices=devices)


def _centre_of(finished: Run) -> HostArray:
    """Return the centre that a run released, without the place of the constant."""
    algorithm, publics = finished.plan.program.algorithm, finished.trace.publics
    assert isinstance(algorithm, Centred)
    last = jax.tree.map(lambda leaf: np.asarray(leaf)[-1], publics)
    return np.asarray(jax.jit(Centred.centre)(algorithm, last), np.float64)[:-1]


def train_on(
    dataset: Dataset | Table,
    request: Request,
    *,
    agents: int | None = None,
    reference: bool = False,
    seed: int | None = None,
    features: str | None = None,
) -> Training:
    """Return the training that a request asks for, on a data set or a table.

    Parameters
    ----------
    agents
        The number of agents; None for 10, and for records that have owners.
    reference, seed
        As for `train`.
    features
        As for `divide`.
    """
    data = divide(
        dataset,
        agents,
        split_seed=request.split_seed,
        features=features,
        evaluate=request.evaluate,
        rows_per_person=request.rows_per_person,
        agents_per_person=request.agents_per_person,
    )
    proposal = proposal_for(data, request, StructureRequest())
    return train(data, proposal, reference=reference, seed=seed, methods=request.methods)


def warnings_of(proposal: Proposal) -> tuple[str, ...]:
    """Return the warnings that a proposal deserves: about delta, bounds and graph."""
    table = proposal.data.table
    unit = "persons" if proposal.budget.unit == "person" else "records"
    units = proposal.records // (proposal.budget.rows_per_person or 1)
    return (
        *delta_warning(proposal.budget.delta, units, unit),
        *((_FILLED_IN,) if table is not None and table.source == "data" else ()),
        *graph_warning(proposal.structure),
    )


_FILLED_IN = (
    "the certificate is conditional: the bounds file was filled in from the records; put "
    'public ranges and lists in their place and write source = "public"'
)
