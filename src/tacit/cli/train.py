"""`tacit train`: a private training on a data set, its certificate and its report."""

from __future__ import annotations

import dataclasses
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit import checks
from tacit.cli.interrupt import interruptible
from tacit.cli.output import emit, error_line, one_of
from tacit.cli.paths import path
from tacit.cli.progress import bar
from tacit.cli.table import (
    DEFAULT_AGENTS,
    TableOptions,
    check_oracle,
    load_data,
    shares,
)
from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.datasets import Dataset
    from tacit.tables import Table
    from tacit.training import Metrics, Request, Training


def _printable(text: str) -> str:
    path(text)
    return text


_OBSERVERS = ("messages", "sum")
_RELATIONS = ("replace_one", "zero_out")
_REFERENCE_CELLS = 10_000_000


def train(  # noqa: PLR0913, PLR0917 - one parameter per option
    data: Annotated[
        str,
        typer.Argument(
            callback=_printable,
            help="adult, breast_cancer, digits, mnist, fashion_mnist, cifar10, femnist, w8a, "
            "mushrooms, ijcnn1; or a CSV or Parquet file, or a folder with one file per agent.",
        ),
    ],
    epsilon: Annotated[float, typer.Option(help="Total budget; inf for a run without noise.")],
    delta: Annotated[float, typer.Option(help="Total budget; at most 1/(10 x records).")],
    target: Annotated[str | None, typer.Option(help="Tables: the column to predict.")] = None,
    bounds: Annotated[
        Path | None,
        typer.Option(parser=path, help="Tables: TOML file of public facts; see tacit bounds."),
    ] = None,
    agent_column: Annotated[
        str | None, typer.Option(help="Tables: the column that says whose record a row is.")
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(parser=path, help="Tables: a file of test records, which are public."),
    ] = None,
    agents: Annotated[
        int | None,
        typer.Option(help="Among how many the records are dealt; 10, or 1 with --structure."),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(help="logistic, hinge:H, multinomial or squared; by the target if not given."),
    ] = None,
    regulariser: Annotated[
        str, typer.Option(help="none, l1:W, l2:W or elastic:W1,W2.")
    ] = "l2:1e-6",
    constraint: Annotated[str, typer.Option(help="none, box:B, ball:R or simplex.")] = "none",
    clip: Annotated[
        float | None,
        typer.Option(help="Bound on a record's coefficient; by the loss if not given."),
    ] = None,
    observer: Annotated[
        str, typer.Option(help="messages: every link is read; sum: secure aggregation.")
    ] = "messages",
    relation: Annotated[str, typer.Option(help="replace_one or zero_out.")] = "replace_one",
    algorithm: Annotated[
        str,
        typer.Option(
            help="With an aggregator: noisy-gradient (if not given), dp-admm, linearised-admm, "
            "pvp, dvp, dp-sgd or (squared loss) one-question. On a network: recal, walkman, nids, "
            "extra, ic-admm. With --structure: noisy-gradient, dp-sgd, sadmm, vradmm, renyi-admm."
        ),
    ] = "noisy-gradient",
    rounds: Annotated[int | None, typer.Option(help="The algorithm's own if not given.")] = None,
    sampling_rate: Annotated[
        float | None, typer.Option(help="Of batches, where there are any: 0.1 if not given.")
    ] = None,
    batches: Annotated[
        str,
        typer.Option(help="poisson, or fixed: of one size, without replacement (replace_one)."),
    ] = "poisson",
    local_updates: Annotated[
        int, typer.Option(help="Of linearised-admm: updates, each a question, in one round.")
    ] = 1,
    rho: Annotated[
        float | None, typer.Option(help="The ADMM parameter, of dp-admm, pvp and dvp.")
    ] = None,
    structure: Annotated[
        str | None, typer.Option(help="lasso, fused-lasso or generalized-lasso.")
    ] = None,
    graph: Annotated[
        Path | None,
        typer.Option(
            parser=path, help="CSV, public: edges of fused-lasso, A of generalized-lasso."
        ),
    ] = None,
    graph_from: Annotated[
        str | None,
        typer.Option(
            help="Of fused-lasso: learn the graph from the records that are public (test), or from "
            "those that are trained on (private; the certificate is then conditional)."
        ),
    ] = None,
    graph_weight: Annotated[
        float, typer.Option(help="Of --graph-from: the larger, the fewer edges.")
    ] = 0.2,
    smoothing: Annotated[
        float, typer.Option(help="Of sadmm and vradmm: strength of Laplacian smoothing.")
    ] = 0.0,
    network: Annotated[
        str | None,
        typer.Option(
            help="Without aggregator: ring (if not given), path, star, complete, grid, grid:RxC, "
            "erdos-renyi:P, regular:D, or a file of edges (.txt, .csv, .edges, .graphml)."
        ),
    ] = None,
    walk: Annotated[
        str | None, typer.Option(help="On a relay: cyclic (if not given) or random.")
    ] = None,
    cap: Annotated[
        int | None, typer.Option(help="On a relay: the most answers that an agent gives.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the noise: then the run is a reproduction, not private.")
    ] = None,
    split_seed: Annotated[int, typer.Option(help="Of the split and of the dealing out.")] = 0,
    out: Annotated[
        Path | None, typer.Option(parser=path, help="A new folder for the report.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier report.")] = False,
    reference: Annotated[
        bool, typer.Option("--reference", help="Non-private optimum for large data too.")
    ] = False,
    oracle_metrics: Annotated[
        bool,
        typer.Option("--oracle-metrics", help="Tables: metrics on private records, in a file."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object, nothing else.")] = False,
) -> None:
    """Train on a data set or on a table of your own under a total privacy budget."""
    asked = {
        "agents": agents, "epsilon": epsilon, "delta": delta, "observer": observer,
        "relation": relation, "algorithm": algorithm, "rounds": rounds, "seed": seed,
        "split_seed": split_seed, "loss": loss, "regulariser": regulariser,
        "constraint": constraint, "clip": clip, "sampling_rate": sampling_rate, "rho": rho,
        "batches": batches,
        "local_updates": local_updates, "structure": structure, "smoothing": smoothing,
        "graph": None if graph is None else str(graph),
        "graph_from": graph_from, "graph_weight": graph_weight,
        "network": network, "walk": walk, "cap": cap,
    }  # fmt: skip
    options = TableOptions(target=target, bounds=bounds, agent_column=agent_column, test=test)
    delivery = Delivery(out, force, oracle_metrics, json)
    dataset, request = interruptible(
        lambda: _prepared(data, options, asked, delivery, reference=reference)
    )
    if not json:
        typer.echo(_heading(dataset, request))
    shown = sys.stderr.isatty() and not (json or quiet)
    training = _trained(dataset, request, reference=reference, shown=shown)
    _deliver(training, delivery)


@dataclass(frozen=True)
class Delivery:
    """What is to become of the results."""

    out: Path | None
    force: bool
    oracle_metrics: bool
    json: bool


def check_request(request: Request) -> None:
    """Raise unless everything in the request that needs no data is in order.

    Raises
    ------
    InputError
        With the fix.
    """
    from tacit.engine.plan import check_size  # noqa: PLC0415 - start-up
    from tacit.proposal.request import (  # noqa: PLC0415 - start-up
        check_structure,
        fixed_batches,
        local_updates,
        sampling_rate,
        terms_for,
    )
    from tacit.training import ALGORITHMS  # noqa: PLC0415 - start-up

    one_of("--algorithm", request.algorithm, ALGORITHMS)
    one_of("--observer", request.observer, _OBSERVERS)
    one_of("--relation", request.relation, _RELATIONS)
    checks.at_least("agents", request.agents, 1)
    if request.rounds is not None:
        checks.at_least("rounds", request.rounds, 1)
        check_size(request.rounds * request.local_updates, request.agents)
    sampling_rate(request)
    fixed_batches(request)
    local_updates(request)
    check_structure(request)
    terms_for(request)
    check_seed("split-seed", request.split_seed)
    if request.clip is not None:
        checks.positive("clip", request.clip)
    if request.seed is not None:
        check_seed("seed", request.seed)


def check_seed(name: str, seed: int) -> None:
    """Raise `InputError` unless the seed fits the generators: 0 to 2^63 - 1."""
    if not 0 <= seed < 2**63:
        raise InputError(f"{name} is {seed}; it must be a whole number from 0 to 2^63 - 1")


def _prepared(
    data: str,
    options: TableOptions,
    asked: dict[str, Any],
    delivery: Delivery,
    *,
    reference: bool,
) -> tuple[Dataset | Table, Request]:
    """Return the data and the request, after every check that comes before training."""
    from tacit.report import check_out  # noqa: PLC0415 - start-up
    from tacit.training import Request  # noqa: PLC0415 - start-up

    wanted = asked["agents"]
    default = DEFAULT_AGENTS if asked["structure"] is None else 1
    request = Request(**{**asked, "agents": default if wanted is None else wanted})
    check_request(request)
    if delivery.out is not None:
        check_out(delivery.out, force=delivery.force)
    dataset = load_data(data, options)
    check_oracle(
        dataset, oracle_metrics=delivery.oracle_metrics, reference=reference, out=delivery.out
    )
    request = dataclasses.replace(request, agents=shares(dataset, wanted, default=default))
    _check_problem(dataset, request)
    return dataset, request


def _check_problem(dataset: Dataset | Table, request: Request) -> None:
    """Raise unless there is such a problem, and the algorithm solves it in so many rounds."""
    from tacit.algorithms import Choice, method_named  # noqa: PLC0415 - start-up
    from tacit.proposal.connection import network_for  # noqa: PLC0415 - start-up
    from tacit.proposal.request import sampling_rate  # noqa: PLC0415 - start-up
    from tacit.training.material import problem_for  # noqa: PLC0415 - start-up

    problem = problem_for(dataset, request)
    method = method_named(request.algorithm)
    rate = sampling_rate(request) or 1.0
    choice = Choice(problem=problem, clip=math.inf, record_norm=1.0, rate=rate)
    method.algorithm(choice).questions(_rounds(request))
    network_for(request)


def _trained(
    dataset: Dataset | Table, request: Request, *, reference: bool, shown: bool
) -> Training:
    from tacit.training import training  # noqa: PLC0415 - start-up

    wanted = reference or (dataset.public and small(dataset))
    # the bar stays on this thread: when Ctrl-C ends it, it gives the terminal's cursor back
    with bar(_rounds(request), shown=shown) as report:
        return interruptible(
            lambda: training.train(dataset, request, reference=wanted, report=report)
        )


def _rounds(request: Request) -> int:
    from tacit.proposal.request import rounds_of  # noqa: PLC0415 - start-up

    return rounds_of(request)


def small(dataset: Dataset | Table) -> bool:
    """Whether the training part has at most 10 million cells, so that its optimum costs seconds."""
    columns = len(dataset.feature_names)
    return dataset.train_rows * columns <= _REFERENCE_CELLS


def _heading(dataset: Dataset | Table, request: Request) -> str:
    from tacit.algorithms import method_named  # noqa: PLC0415 - start-up
    from tacit.proposal.connection import DEFAULT_NETWORK  # noqa: PLC0415 - start-up

    agents, rounds = _count(request.agents, "agent"), _count(_rounds(request), "round")
    if method_named(request.algorithm).network is not None:
        rounds += f" on {request.network or DEFAULT_NETWORK}"
    return (
        f"Training on {dataset.title}: {dataset.train_rows:,} records, {agents}\n"
        f"{request.algorithm}, {rounds}; observer {request.observer}, relation "
        f"{request.relation}, split seed {request.split_seed}"
    )


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _deliver(training: Training, delivery: Delivery) -> None:
    from tacit.report import ORACLE, results, save  # noqa: PLC0415 - start-up

    out, oracle = delivery.out, delivery.oracle_metrics
    for warning in training.warnings:
        error_line(warning, kind="warning: ")
    if out is not None:
        save(training, out, force=delivery.force, oracle=oracle)
    if oracle:
        error_line(
            f"{ORACLE} is computed from private records; do not publish it", kind="warning: "
        )
    if delivery.json:
        emit(results(training, out))
    else:
        typer.echo(_sentences(training, out))


def _sentences(training: Training, out: Path | None) -> str:
    lines = ["", "Certificate", *(f"  {line}" for line in training.certificate.lines()), ""]
    lines += _measured(training)
    lines += [f"Took {training.seconds:.1f} s"]
    lines += ["No report was written; --out DIR writes one" if out is None else _where(out)]
    return "\n".join(lines)


def _measured(training: Training) -> list[str]:
    from tacit.report import error_name  # noqa: PLC0415 - start-up

    if not training.shows_test:
        return ["Test error not shown: the records are private; --test FILE names public ones"]
    error = f"Test {error_name(training)} {_error(training, training.metrics)}"
    if not training.dataset.public:
        return [f"{error} (on the records that --test declares public)"]
    if training.nonprivate is None:
        return [f"{error} (non-private optimum not computed; --reference does)"]
    return [f"{error} (non-private optimum {_error(training, training.nonprivate)})"]


def _error(training: Training, metrics: Metrics) -> str:
    number = training.dataset.task == "regression"
    return f"{metrics.test_error:.4g}" if number else f"{metrics.test_error:.2%}"


def _where(out: Path) -> str:
    return f"Report: {out / 'report.html'}\nModel: {out / 'model.json'}"
