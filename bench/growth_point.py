"""One point of `bench.growth`: what each part of a training costs at one size, in one process."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.clock import peak_memory, reset_peak
from taciturn.budget import AccountTerms, Guarantee, open_account
from taciturn.datasets import Dataset
from taciturn.engine import Plan, Run, reserve, run
from taciturn.engine.charging import charge_of
from taciturn.kernel.door import observed_ledger
from taciturn.kernel.privacy import compose
from taciturn.report.results import json_text, results, strict
from taciturn.report.training import training_page
from taciturn.training import (
    DividedData,
    Proposal,
    Request,
    StructureRequest,
    Training,
    divide,
    proposal_for,
)
from taciturn.training.assessment import curves_on_test, measure
from taciturn.training.request import NetworkRequest

TESTS = 1_000
# seconds of a run whose rounds are measured by twenty times as many more, or once alone
QUICK, SLOW = 0.5, 5.0


@dataclass(frozen=True)
class Point:
    """The sizes of a training, and how it is run."""

    agents: int = 10
    records: int = 10_000
    columns: int = 10
    rounds: int = 20
    observer: str = "messages"
    algorithm: str = "noisy-gradient"
    network: str | None = None

    def of_size(self, name: str, size: int) -> Point:
        """Return the point with another number of `name`: agents, records, columns or rounds."""
        return Point(**{**dataclasses.asdict(self), name: size})

    def request(self, rounds: int) -> Request:
        """Return what a person would ask for."""
        return Request(
            epsilon=1.0, delta=1e-9, observer=self.observer, algorithm=self.algorithm,
            rounds=rounds, network=NetworkRequest(network=self.network),
        )  # fmt: skip


@dataclass
class Figures:
    """Processor seconds and bytes by part: bytes at its peak, beyond what was held before."""

    seconds: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    peak: int = 0
    total: float = 0.0

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Measure what happens inside."""
        reset_peak()
        held, began = peak_memory(), time.process_time()
        yield
        self.seconds[part] = time.process_time() - began
        self.memory[part] = peak_memory() - held
        self.peak = max(self.peak, peak_memory())


def work(text: str) -> None:
    """Print the figures of the point that is given as JSON."""
    point = Point(**json.loads(text))
    figures = Figures()
    dataset = made_up(point)
    with figures.of("divide"):
        data = divide(dataset, point.agents, split_seed=0)
    with figures.of("propose"):
        proposal = proposal_for(data, point.request(point.rounds), StructureRequest())
    with figures.of("plan"):
        plan = proposal.plan()
    with figures.of("charge"):
        charged(plan, point.observer)
    finished = rounds_of(point, data, proposal, plan, figures)
    with figures.of("ledger"):
        plan.ledger.same_as(observed_ledger(plan.ledger, finished.trace.records))
    with figures.of("certificate"):
        compose((plan.leg,), plan.terms).certificate()
    with figures.of("plan.json"):
        json_text(strict({**plan.to_dict(), "digest": plan.digest}))
    with figures.of("metrics"):
        training = measured(data, proposal, plan, finished)
    with figures.of("results"):
        json_text(results(training, None))
    with figures.of("page"):
        training_page(training).html()
    figures.total = time.process_time()
    print(json.dumps(dataclasses.asdict(figures)))


def made_up(point: Point) -> Dataset:
    """Return records of either class, and some more to test on, which are not private."""
    draw = np.random.default_rng(0)
    rows = point.records + TESTS
    features = draw.standard_normal((rows, point.columns), np.float32).astype(np.float64)
    features /= np.sqrt(point.columns)
    return Dataset(
        name="made-up", title="made-up records", features=features,
        targets=np.where(features[:, 0] > 0, 1.0, -1.0), task="binary", classes=2,
        feature_names=tuple(f"c{k}" for k in range(point.columns)), train_rows=point.records,
        fixed_test=False, public=True, licence="none", source="none", record_norm=1.0,
        conditions=(),
    )  # fmt: skip


def charged(plan: Plan, observer: str) -> None:
    """Charge a plan to a new account for that observer, and close the run as released."""
    terms = AccountTerms(observer=observer)
    with TemporaryDirectory() as folder:
        os.environ["TACITURN_STATE_DIR"] = str(Path(folder) / "state")
        account = open_account("one", Guarantee(8.0, 1e-5, 0.5), terms, folder=Path(folder))
        reservation = reserve(account, plan, seed=None, what="a run")
        reservation.use(charge_of(plan))
        reservation.close(released=True)


def rounds_of(
    point: Point, data: DividedData, proposal: Proposal, plan: Plan, figures: Figures
) -> Run:
    """Run a plan, and a longer one: what they differ in is rounds; return the run of the plan."""
    with figures.of("pack"):
        data.shards(proposal.precision)
    with figures.of("run"):
        first = _run(plan, data)
    again = min(_seconds(plan, data) for _ in range(1 if figures.seconds["run"] > SLOW else 2))
    rounds = plan.rounds * (2 if again > QUICK else 21)
    # what was read and made once is packed quicker the next time
    packed = min(_packing(data, proposal), figures.seconds["pack"])
    longer = proposal_for(data, point.request(rounds), StructureRequest()).plan()
    # the first of them compiles blocks of another length
    more = min(_seconds(longer, data) for _ in range(2 if again > QUICK else 3))
    each = (more - again) / (rounds - plan.rounds)
    figures.seconds |= {
        "compile": figures.seconds.pop("run") - again, "round": each,
        "checks": again - packed - plan.rounds * each,
    }  # fmt: skip
    return first


def _seconds(plan: Plan, data: DividedData) -> float:
    began = time.process_time()
    _run(plan, data)
    return time.process_time() - began


def _packing(data: DividedData, proposal: Proposal) -> float:
    began = time.process_time()
    data.shards(proposal.precision)
    return time.process_time() - began


def _run(plan: Plan, data: DividedData) -> Run:
    # the shards have no name here, so that they do not outlive the door's own rows
    kept = frozenset({"models"})
    return run(plan, data.shards(plan.precision), runtime="simulate", keep=kept)


def measured(data: DividedData, proposal: Proposal, plan: Plan, finished: Run) -> Training:
    shards = data.shards(proposal.precision)
    return Training(
        proposal=proposal, dataset=data.dataset, features=None, plan=plan, model=finished.model,
        models=np.asarray(finished.trace.models),
        metrics=measure(proposal.problem, data, shards, finished.model, clip=proposal.clip),
        curves=curves_on_test(proposal.problem, data, np.asarray(finished.trace.models)),
        nonprivate=None, seconds=finished.seconds, warnings=(),
    )  # fmt: skip
