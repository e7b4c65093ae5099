"""One private training run, from a proposal to its model, certificate, metrics and model file.

Model, certificate and trace are released before anything else is computed, so a later failure does
not lose them.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import jax
import numpy as np
import pandas as pd

import taciturn
from taciturn import engine, models
from taciturn.algorithms import METHODS, NEWTON, Asked, Centred, Method
from taciturn.budget import Account, Reservation
from taciturn.certificates import document_of, stated
from taciturn.datasets import Dataset
from taciturn.engine import Plan, Run, run
from taciturn.engine.processes import Processes
from taciturn.engine.running import check_devices, summary_lines
from taciturn.errors import InputError, reason
from taciturn.features import CentredRows, FeatureMap
from taciturn.kernel.privacy import Certificate
from taciturn.kernel.records import Devices, Draw, Origin
from taciturn.problems import in_target_units
from taciturn.tables import Report, Table
from taciturn.training import evaluation
from taciturn.training.assessment import (
    UNMEASURED,
    Assessment,
    Metrics,
    curves_on_test,
    measure,
    on_training,
    optimum,
)
from taciturn.training.evaluation import Evaluated, PrivateScore, ask_held_out, score_of_totals
from taciturn.training.facts import labels_of
from taciturn.training.forecast import known_forecast, risk_warning
from taciturn.training.parts import delta_warning
from taciturn.training.proposal import Proposal
from taciturn.training.records import (
    Counted,
    DividedData,
    Division,
    check_all_hold_out,
    check_data,
    count_data,
    inputs_for,
    local_part,
    proposal_for,
    storage_precision,
)
from taciturn.training.request import Request, StructureRequest, centre_warning
from taciturn.typing import HostArray

T = TypeVar("T")


@dataclass(frozen=True)
class Attempts:
    """Steps after a release, with a line for each that failed; the release remains valid.

    - `report`: Called with each line; None for no report.
    - `failures`: Lines of steps that read private records only through the door, for the report.
    - `private`: Lines of other steps, whose failure may depend on records, without noise.
    """

    report: Callable[[str], None] | None = None
    failures: list[str] = field(default_factory=list)
    private: list[str] = field(default_factory=list)

    def attempt(
        self, what: str, step: Callable[[], T], otherwise: T, *, private: bool = False
    ) -> T:
        """Return the result of a step, or `otherwise` if it raises; an interrupt propagates."""
        try:
            return step()
        except Exception as error:
            line = f"{what} failed: {reason(error)}. The model and its certificate stand"
        (self.private if private else self.failures).append(line)
        if self.report is not None:
            with suppress(Exception):  # a failing report must not lose the run either
                self.report(line)
        return otherwise


@dataclass(frozen=True, repr=False)
class Training:
    """A finished training run, or its released part so far.

    - `features`: The feature map of the linear model, if any.
    - `plan`: The plan, with the certificate of the run alone.
    - `models`: The trace: the released model after every round, `(T, ...)`.
    - `metrics`: On training records only for published data sets, or on request.
    - `curves`: `test_error` and `test_loss` of the released model after every round, `(T,)` each;
      empty without test records.
    - `nonprivate`: The non-private optimum on the same records; None if it was not computed.
    - `seconds`: Wall time of planning, running and measuring, without the non-private optimum.
    - `warnings`: Warnings known before a record was read.
    - `charged`: The charge to an account; None if there is none.
    - `failures`: A line for each later step that failed, whose result is missing.
    - `private_failures`: Such lines for steps that read private records without noise: not for
      publication.
    - `covering`: The certificate of training and evaluation together, known before either; None
      without an evaluation.
    - `evaluation`: The private evaluation; None if there was none, or it failed.
    - `choice`: The certificate of all trainings among which this one was chosen, and of the choice;
      None if it was the only one.
    - `asked`: Of Newton's method, the last question and its answer, for standard errors.
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
    charged: engine.Charged | None = None
    failures: tuple[str, ...] = ()
    private_failures: tuple[str, ...] = ()
    covering: Certificate | None = None
    evaluation: Evaluated | None = None
    choice: Certificate | None = None
    asked: Asked | None = None

    @property
    def certificate(self) -> Certificate:
        """The full certificate: with conditions, evaluation or choice, and the stamp of a seed."""
        # an evaluation that failed may have answered, so it is covered too
        return self.choice or self.covering or self.plan.certificate

    @property
    def private_score(self) -> PrivateScore | None:
        """The score of the model from noised counts of held-out records; None without any."""
        return None if self.evaluation is None else self.evaluation.score

    @property
    def assessment(self) -> Assessment | None:
        """The performance on the test records; None if it may not be shown."""
        return self.metrics.assessment if self.shows_test else None

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """The warnings, including those about the test records if these may be shown."""
        return (*self.warnings, *(() if self.assessment is None else self.assessment.warnings))

    @property
    def shows_test(self) -> bool:
        """Whether test metrics may be shown: the test records are published or declared public."""
        declared = self.dataset.public or isinstance(self.dataset, Table)
        return declared and not math.isnan(self.metrics.test_error)

    def __repr__(self) -> str:
        proposal = self.proposal
        error = f"{self.metrics.test_error:.4g}" if self.shows_test else "not shown"
        return "\n".join(
            [
                f"Training on {self.dataset.title}: {proposal.units_text}, "
                f"{len(proposal.counts)} agents",
                f"  {proposal.method.name}, {proposal.rounds} rounds; loss {proposal.clipped_loss}",
                *summary_lines(self.certificate, self.model),
                f"  test error: {error}; to_frame() for its curves",
                f"  charged to: {'nothing' if self.charged is None else self.charged.account}",
            ]
        )

    def to_frame(self) -> pd.DataFrame:
        """Return test error and test loss after every round, one row per round.

        There are no columns if the test records are not public, or there are none.
        """
        index = pd.RangeIndex(1, self.plan.rounds + 1, name="round")
        return pd.DataFrame(self.curves if self.shows_test else {}, index=index)


def released(training: Training) -> models.Model:
    """Return the model of a training: for a table in its units, for a data set as loaded.

    **Guarantee.** Post-processing of the released weights by public facts, with figures on public
    test records.
    """
    dataset, proposal, features = training.dataset, training.proposal, training.features
    assessment, score = training.assessment, training.private_score
    if isinstance(dataset, Table):
        terms = table_model_terms(proposal, features, training.model)
    else:
        rows = training.model.reshape(len(training.model), -1).tolist()
        names = dataset.feature_names if features is None else features.names
        columns = zip(names, rows, strict=True)
        terms = tuple(models.Term(name, None, tuple(row)) for name, row in columns)
    return model_of(
        proposal,
        terms,
        training.certificate,
        features=features,
        data=dataset.name,
        assessment=None if assessment is None else assessment.to_dict(),
        private_score=None if score is None else score.to_dict(),
    )


def table_model_terms(
    proposal: Proposal, features: FeatureMap | None, weights: HostArray
) -> tuple[models.Term, ...]:
    """Return the terms of released weights of a proposal for a table, in the user's units.

    `features` is the feature map of the weights, with a centre that the run released.
    """
    if proposal.data.table is None:
        raise InputError("the proposal is for no table, so its model has no columns; name a table")
    bounds = proposal.data.table.bounds
    linear = in_target_units(proposal.problem.loss)
    if features is None:
        return models.table_terms(bounds, weights, linear=linear)
    return models.feature_terms(bounds, features, weights, linear=linear)


def model_of(
    proposal: Proposal,
    terms: tuple[models.Term, ...],
    certificate: Certificate,
    *,
    features: FeatureMap | None,
    data: str,
    **measured: Any,
) -> models.Model:
    """Return a released model with its certificate, of the data set or file called `data`.

    `measured`: `assessment` and `private_score` as plain values, if any.
    """
    table = proposal.data.table
    bounds = None if table is None else table.bounds
    centre = tuple(features.centre.tolist()) if isinstance(features, CentredRows) else None
    document = document_of(certificate)  # the file suffices to recompute its figures
    return models.Model(
        data=data,
        task=proposal.data.task,
        loss=str(proposal.loss),
        clip=proposal.clip,
        class_weights=proposal.class_weights,
        target="label" if bounds is None else bounds.target_name,
        labels=labels_of(proposal.data),
        bounds=bounds,
        features=proposal.data.features,
        centre=centre,
        terms=terms,
        certificate={**stated(certificate), "terms": document["terms"], "legs": document["legs"]},
        statement=tuple(certificate.lines()),
        taciturn_version=taciturn.__version__,
        **measured,
    )


def train(  # noqa: PLR0913 - what is run, who pays, and who is shown what
    data: Counted | DividedData,
    proposal: Proposal,
    *,
    reference: bool = False,
    oracle: bool = False,
    seed: int | None = None,
    report: Callable[[Any], None] | None = None,
    reading: Report | None = None,
    methods: Mapping[str, Method] = METHODS,
    warn: Callable[[str], None] | None = None,
    started: Callable[[], None] | None = None,
    account: Account | None = None,
    release: Callable[[Training], None] | None = None,
    processes: Processes | None = None,
    trace: bool = True,
) -> Training:
    """Run the training that a proposal describes, on the records it was written for.

    The plan is derived from the proposal, whose facts and counts are compared with those of the
    records; the account is charged; the records are read and put behind a door, which the plan
    opens; the model is released; then the held-out records are queried and metrics computed.

    - `data`: Records that were counted, or already read.
    - `reference`: Whether to compute the non-private optimum on the same records too, if the data
      set is published or `oracle` is set.
    - `oracle`: Whether to compute metrics on private records, without noise and outside the
      certificate. Metrics on published data sets are always computed.
    - `seed`: Seed of the noise; None for the operating system's entropy. With a seed the
      certificate states "reproduction, not private".
    - `report`, `reading`: Called with the number of finished rounds, and with the number of rows
      read and the total.
    - `warn`: Called with each warning before a record is read, and with a line for each later step
      that failed.
    - `started`: Called once the records are read.
    - `account`: The account to charge; None for no charge.
    - `release`: Called in the first process with the training, without metrics or evaluation, after
      its account is closed and before anything else is computed.
    - `processes`: Several processes that share the agents: all call this function, only the first
      with an account, and each keeps the records of its agents, by the draw of the first. The first
      one computes the curves.
    - `trace`: Whether to keep the model after each round.

    **Guarantee.** No cell is read before the charge is on disk, and the charge stays, whatever the
    cells are. After the run, only the evaluation reads a private table's records, through the door,
    unless `oracle` is set. After the run, errors of later steps are not raised but listed in
    `failures`. The certificate covers an evaluation from the start, even one that answered and then
    failed.
    """
    check_data(data, proposal)
    if reference and not (oracle or data.public):
        raise InputError(
            "the optimum without privacy is a function of private records; ask for oracle metrics "
            "too, or leave the reference out"
        )
    began, attempts = time.perf_counter(), Attempts(warn)
    plan = proposal.plan(methods)
    last = evaluation.evaluation_plan(proposal, plan) if proposal.asks else None
    warnings = (
        *warnings_of(proposal),
        *risk_warning(proposal, known_forecast(proposal, plan, methods)),
        *centre_warning(proposal, plan),
    )
    if warn is not None:
        for warning in warnings:
            warn(warning)
    among = Processes() if processes is None else processes
    devices = _devices(data, plan, among)
    if devices is not None and reference:
        raise InputError("the optimum without privacy is computed in one process; leave it out")
    agree(data, proposal, among)
    kept, by_newton = {"models"} if trace else set(), proposal.method.name == NEWTON
    with _payment(account, data, proposal, plan, seed) as reservation:
        if isinstance(data, Counted):
            data = read(data, proposal, seed, among, reading)
        if started is not None:
            started()
        finished = run(
            plan,
            # no variable holds them, so that `run` can free them once the door has its own rows
            data.shards(proposal.precision, centre=proposal.centre),
            runtime="simulate",
            seed=seed,
            keep=frozenset(kept | {"publics"} if proposal.centre or by_newton else kept),
            report=report,
            account=reservation,
            devices=devices,
        )
    first = devices is None or jax.process_index() == 0
    training = _training_of(finished, data, proposal, last, warnings, began)
    if release is not None and first:
        attempts.attempt("writing what was released", partial(release, training), None)
    attempts.attempt("returning memory", give_back, None)
    training = _measured(
        training,
        data,
        attempts,
        trained_on=finished.origin,
        seed=seed,
        reference=reference,
        oracle=oracle,
        curves=first and trace,
    )
    failures, private = tuple(attempts.failures), tuple(attempts.private)
    return replace(training, failures=failures, private_failures=private)


def _devices(data: Counted | DividedData, plan: Plan, processes: Processes) -> Devices | None:
    """Return the checked devices that share the agents; None for a single device."""
    devices = None if processes.count == 1 else Devices()
    if isinstance(data, DividedData) and data.local is not None:
        devices = data.local.devices
    if devices is not None:
        check_devices(plan.program, devices, serial=False)
    return devices


def agree(data: Counted | DividedData, proposal: Proposal, processes: Processes) -> None:
    """Raise in every process unless all have the same proposal and files; no cell is read."""
    if processes.count == 1:
        return
    evaluation = proposal.evaluation
    check_all_hold_out(() if evaluation is None else evaluation.counts)
    processes.agree({"proposal": proposal.digest, "columns": data.columns})
    files = (*data.files, *data.test_files)
    processes.agree_on_records("files", [file.digest.hex() for file in files])


def _payment(
    account: Account | None,
    data: Counted | DividedData,
    proposal: Proposal,
    plan: Plan,
    seed: int | None,
) -> AbstractContextManager[Reservation | None]:
    """Return the context in which a training is charged, with its evaluation.

    `InputError` if the account cannot hold it: see `check_covered` and `check_chargeable`.
    """
    if account is None:
        return nullcontext()
    engine.check_chargeable(
        seed=seed,
        conditional=proposal.conditional or plan.certificate.conditional or data.conditional,
        origin=data.origin if isinstance(data, DividedData) else None,
    )
    evaluation.check_covered(proposal, plan)
    purpose = engine.purpose_of(plan, f"{proposal.method.name} on {data.title}", proposal.digest)
    files = tuple(file.digest for file in data.files)
    return engine.paying(account.for_table(data.columns), engine.charge_of(plan), purpose, files)


def read(
    data: Counted,
    proposal: Proposal,
    seed: int | None,
    processes: Processes,
    reading: Report | None,
) -> DividedData:
    """Return the records, read and divided; the first process arrives here after its charge."""
    processes.agree({"account": "charged"})
    draw = processes.share_draw(Draw.for_noise(seed, proposal.split_seed))
    precision = storage_precision(proposal, tests=bool(data.test_files))
    division = replace(data.division, features=proposal.data.features)
    records = data.load(division, draw, precision, reading)
    if processes.count > 1:
        records = local_part(records, Devices())
    check_data(records, proposal)
    return records


def _training_of(
    finished: Run,
    data: DividedData,
    proposal: Proposal,
    last: Plan | None,
    warnings: tuple[str, ...],
    began: float,
) -> Training:
    """Return the released training of a run; only public facts of `data` are read.

    `last` is the plan of the evaluation, if there is one.
    """
    features, algorithm = data.features, finished.plan.program.algorithm
    if proposal.centre:
        public = finished.trace.publics
        if isinstance(algorithm, Centred):  # else as stated by the method's process
            public = jax.tree.map(lambda leaf: np.asarray(leaf)[-1], public)
            public = jax.jit(Centred.centre)(algorithm, public)
        centre = np.asarray(public, np.float64)
        # without the entry of the constant
        features = CentredRows(inputs_for(data.dataset), features, centre[:-1])
    asked = finished.trace.publics if proposal.method.name == NEWTON else None
    if asked is not None:
        asked = jax.tree.map(lambda leaf: np.asarray(leaf)[-1], asked)
    stated = (*data.dataset.conditions, *proposal.conditions)
    conditional = proposal.conditional or data.conditional
    certificate = finished.certificate.under(stated, conditional=conditional)
    covering = None
    if last is not None:
        covering = evaluation.with_evaluation(proposal, certificate, last.certificate)
    return Training(
        proposal=proposal,
        dataset=data.dataset,
        features=features,
        plan=replace(finished.plan, certificate=certificate),
        model=finished.model,
        models=np.asarray([] if finished.trace.models is None else finished.trace.models),
        metrics=UNMEASURED,
        curves={},
        nonprivate=None,
        seconds=time.perf_counter() - began,
        warnings=warnings,
        charged=finished.charged,
        covering=covering,
        asked=asked,
    )


def _measured(  # noqa: PLR0913 - a release, its records, and what is computed of both
    training: Training,
    data: DividedData,
    attempts: Attempts,
    *,
    trained_on: Origin | None,
    seed: int | None,
    reference: bool,
    oracle: bool,
    curves: bool,
) -> Training:
    """Return a training with its evaluation and metrics; failures have a line in `attempts`.

    `trained_on`: the origin of the training records, which are packed again if metrics are computed
    on them. `curves`: whether this process computes the curves.

    **Guarantee.** Training records are read, without noise, only if the data set is published or
    oracle metrics are requested; held-out records only through the door of their one question.
    """
    began, proposal, model = time.perf_counter(), training.proposal, training.model
    problem, public = proposal.problem, data.dataset.public
    opened = public or oracle

    def finished(**found: Any) -> Training:
        seconds = training.seconds + time.perf_counter() - began
        return replace(training, **found, seconds=seconds)

    if proposal.centre:
        if not (opened or proposal.asks):  # only test rows are needed
            data = _without_training_rows(data)
        assert isinstance(training.features, CentredRows)
        place = partial(data.around, training.features.centre)
        around = attempts.attempt("placing rows around the centre", place, None)
        if around is None:
            return finished()
        data = around
    answered = _evaluate(training, data, attempts, trained_on, seed) if proposal.asks else None
    metrics = attempts.attempt(
        "measuring on the test records",
        lambda: measure(problem, data, None, model, clip=proposal.clip),
        UNMEASURED,
    )
    drawn = training.curves
    if curves:
        drawn = attempts.attempt(
            "the curves on the test records",
            lambda: curves_on_test(problem, data, training.models),
            drawn,
        )
    if opened:
        error, loss = attempts.attempt(
            "measuring on the training records",
            lambda: on_training(problem, data, data.shards(proposal.precision), model),
            (math.nan, math.nan),
            private=not public,
        )
        metrics = replace(metrics, train_error=error, train_loss=loss)
    measured = finished(evaluation=answered, metrics=metrics, curves=drawn)
    if not (reference and opened):
        return measured
    nonprivate = attempts.attempt(
        "the optimum without privacy", lambda: optimum(problem, data), None, private=not public
    )
    return replace(measured, nonprivate=nonprivate)


def _evaluate(
    training: Training,
    data: DividedData,
    attempts: Attempts,
    trained_on: Origin | None,
    seed: int | None,
) -> Evaluated | None:
    """Return the evaluation of a released model on held-out records; None if it failed."""
    proposal = training.proposal
    answered = attempts.attempt(
        "the private evaluation",
        lambda: ask_held_out(
            proposal,
            training.plan,
            training.model,
            data.evaluated(),
            trained_on=trained_on,
            seed=seed,
            devices=None if data.local is None else data.local.devices,
        ),
        None,
    )
    if answered is None:
        return None

    def score() -> PrivateScore:
        labels = data.dataset.labels or labels_of(proposal.data)
        scale = evaluation.Scale(labels, data.dataset.target_scale[0])
        return score_of_totals(proposal, answered.plan, answered.totals, scale)

    what = "the figures of the private evaluation"
    return replace(answered, score=attempts.attempt(what, score, None))


def _without_training_rows(data: DividedData) -> DividedData:
    rows, targets = data.parts.train_features[:0], data.parts.train_targets[:0]
    parts = data.parts._replace(train_features=rows, train_targets=targets)
    owners = (np.zeros(0, np.int64),) * len(data.owners)
    return replace(data, parts=parts, owners=owners, held_out=(), persons=None, absent=None)


def train_on(
    dataset: Dataset | Table,
    request: Request,
    *,
    agents: int | None = None,
    reference: bool = False,
    seed: int | None = None,
) -> Training:
    """Run the training that a request describes; otherwise as for `train` and `Division`."""
    division = Division.of_request(request, agents)
    data = count_data(division, dataset)
    proposal = proposal_for(data, request, StructureRequest())
    return train(data, proposal, reference=reference, seed=seed, methods=request.methods)


def warnings_of(proposal: Proposal) -> tuple[str, ...]:
    """Return the warnings about a proposal's delta and bounds."""
    unit = "persons" if proposal.budget.unit == "person" else "records"
    units = proposal.records // (proposal.budget.rows_per_person or 1)
    filled_in = (
        "the certificate is conditional: the bounds file was filled in from the records; put "
        'public ranges and lists in their place and write source = "public"'
    )
    stated = (filled_in,) if proposal.conditional else ()
    return (*delta_warning(proposal.budget.delta, units, unit), *stated)


def give_back() -> None:
    """Return free memory to the system, if glibc can: a compilation leaves some 60 MB."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
