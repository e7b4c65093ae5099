"""One private training run: its plan, its model and certificate, and what is measured of them.

What the answers amount to, model, certificate and trace, is handed over before anything else is
computed. All that follows may fail, and takes nothing of it away.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import jax
import pandas as pd

from taciturn.algorithms import METHODS, Method
from taciturn.budget import Account, Reservation
from taciturn.datasets import Dataset
from taciturn.engine import (
    Charged,
    ChargedTo,
    Plan,
    check_chargeable,
    reserve,
    returned_on_error,
    run,
)
from taciturn.engine.mesh import check_devices
from taciturn.engine.shown import model_line, promise_lines
from taciturn.errors import InputError
from taciturn.evaluation import (
    Evaluated,
    PrivateScore,
    check_covered,
    evaluation_plan,
    with_evaluation,
)
from taciturn.features import FeatureMap
from taciturn.privacy import Certificate, delta_warning
from taciturn.problems import Devices, Draw, origin_of
from taciturn.problems.memory import give_back
from taciturn.proposal import (
    Proposal,
    Request,
    StructureRequest,
    centre_warning,
)
from taciturn.proposal.forecast import known_forecast, risk_warning
from taciturn.tables import Table
from taciturn.training.assessment import UNMEASURED, Assessment, Metrics
from taciturn.training.attempts import Attempts
from taciturn.training.data import (
    DividedData,
    check_data,
    divide,
    proposal_for,
)
from taciturn.training.measuring import Wanted, measured
from taciturn.training.outputs import outputs_of
from taciturn.typing import HostArray


@runtime_checkable
class Finished(Protocol):
    """What is shown of a training."""

    @property
    def proposal(self) -> Proposal:
        """What was proposed."""
        ...

    @property
    def dataset(self) -> Dataset | Table:
        """What was trained on."""
        ...

    @property
    def plan(self) -> Plan:
        """The plan."""
        ...

    @property
    def model(self) -> HostArray:
        """The released model."""
        ...

    @property
    def metrics(self) -> Metrics:
        """Errors and losses."""
        ...

    @property
    def curves(self) -> dict[str, HostArray]:
        """Test metrics after every round."""
        ...

    @property
    def certificate(self) -> Certificate:
        """The guarantee."""
        ...

    @property
    def charged(self) -> Charged | None:
        """Where it was charged."""
        ...

    @property
    def shows_test(self) -> bool:
        """Whether test metrics may be shown."""
        ...


class ShownTraining:
    """The `repr` of a training in ten lines or fewer, and its curves by round."""

    def __repr__(self: Finished) -> str:
        proposal, error = self.proposal, "not shown"
        if self.shows_test:
            error = f"{self.metrics.test_error:.4g}"
        return "\n".join(
            [
                f"Training on {self.dataset.title}: {proposal.units_text}, "
                f"{len(proposal.counts)} agents",
                f"  {proposal.method.name}, {proposal.rounds} rounds; loss {proposal.clipped_loss}",
                *promise_lines(self.certificate),
                model_line(self.model),
                f"  test error: {error}; to_frame() for its curves",
                f"  charged to: {'nothing' if self.charged is None else self.charged.account}",
            ]
        )

    def to_frame(self: Finished) -> pd.DataFrame:
        """Return test error and test loss after every round, one row a round.

        Without columns where the test records are not public, or there are none.
        """
        index = pd.RangeIndex(1, self.plan.rounds + 1, name="round")
        return pd.DataFrame(self.curves if self.shows_test else {}, index=index)


@dataclass(frozen=True, repr=False)
class Training(ShownTraining):
    """A finished training run, or what it has released so far.

    Attributes
    ----------
    models
        The trace: the released model after every round, `(T, ...)`.
    metrics
        Those on training records are computed for published data sets, and on request.
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
    failures
        A line for each later step that failed; what it would have given is missing.
    private_failures
        Such lines of steps that read private records without noise: not for publication.
    charged
        Where the run was charged; None if nowhere.
    covering
        The certificate of training and evaluation together, known before either; None without one.
    evaluation
        What held-out records were asked; None if nothing was, or it failed.
    choice
        The certificate of all trainings that this one was picked from, and of the choice; None if
        it was the only one.
    """

    proposal: Proposal
    dataset: Dataset | Table
    features: FeatureMap | None
    plan: Plan
    model: HostArray
    models: HostArray
    metrics: Metrics
    curves: dict[str, HostArray]
    nonprivate: Metrics | None
    seconds: float
    warnings: tuple[str, ...]
    charged: Charged | None = None
    failures: tuple[str, ...] = ()
    private_failures: tuple[str, ...] = ()
    covering: Certificate | None = None
    evaluation: Evaluated | None = None
    choice: Certificate | None = None

    @property
    def certificate(self) -> Certificate:
        """The certificate of everything: conditions, evaluation or choice, the stamp of a seed."""
        # whether the evaluation ended or failed: it may have answered
        return self.choice or self.covering or self.plan.certificate

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
        Whether to compute metrics on private records: un-noised functions of them, outside the
        certificate. Those on published data sets are always computed.
    seed
        Of the noise; None for the operating system's entropy. With a seed the certificate says
        "reproduction, not private".
    report
        Called with the number of finished rounds.
    methods
        The table that the method's name is looked up in.
    warn
        Called with each warning before a record is read, and with a line for each later step that
        failed.
    account
        What the run is charged to before its door opens, or a reservation for this plan; None
        charges it nowhere.
    release
        Called with what the run has released, once its account is closed and before anything else
        is computed: with neither metrics nor evaluation. In the first process alone.

    Notes
    -----
    Where the records are those of this process's agents (`local_part`), all processes call this
    together, the first one alone with an account; the curves are computed there.

    **Guarantee.** After the run, a private table's records are read by its evaluation, through the
    door, and by nothing else unless `oracle`. Once the run has ended, no error of a later step is
    raised: `failures` has its line. The certificate covers an evaluation that is asked for from
    the start, so also one that answered and then failed.

    Raises
    ------
    InputError
        If the proposal is for other records, no such plan exists, or the account cannot hold it.
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
    told = _told(proposal, plan, methods, warn)
    devices = _devices_for(data, plan, reference=reference)
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
        devices=devices,
    )
    released, shown = outputs_of(finished, proposal, data), _is_first(devices)
    training = Training(
        proposal=proposal,
        dataset=data.dataset,
        features=released.features,
        plan=released.plan,
        model=released.model,
        models=released.models,
        metrics=UNMEASURED,
        curves={},
        nonprivate=None,
        seconds=time.perf_counter() - began,
        warnings=told,
        charged=finished.charged,
        covering=_covering(proposal, released.plan, last),
    )
    attempts = Attempts(warn)
    if release is not None and shown:
        attempts.attempt("writing what was released", partial(release, training), None)
    attempts.attempt("returning memory", give_back, None)
    rows = None if proposal.centre else shards
    del shards  # around a centre, before others take their place
    wanted = Wanted(reference=reference, oracle=oracle, curves=shown, seed=seed)
    found = measured(released, proposal, data, rows, attempts, wanted)
    return dataclasses.replace(
        training,
        **found._asdict() | {"seconds": training.seconds + found.seconds},
        failures=tuple(attempts.failures),
        private_failures=tuple(attempts.private),
    )


def _covering(proposal: Proposal, plan: Plan, last: Plan | None) -> Certificate | None:
    """Return the certificate of a run together with its evaluation; None without one."""
    if last is None:
        return None
    return with_evaluation(proposal, plan.certificate, last.certificate)


def _is_first(devices: Devices | None) -> bool:
    return devices is None or jax.process_index() == 0


def _devices_for(data: DividedData, plan: Plan, *, reference: bool) -> Devices | None:
    """Return the devices that agents are divided among, if they are, once they suit the plan."""
    if data.local is None:
        return None
    check_devices(plan.program, data.local.devices, serial=False)
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
        draw=Draw.for_noise(seed, request.split_seed),
        features=features,
        evaluate=request.evaluate,
        rows_per_person=request.rows_per_person,
        agents_per_person=request.agents_per_person,
    )
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
