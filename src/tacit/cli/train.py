"""`tacit train`: a private training on a data set, its certificate and its report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit import checks
from tacit.cli.interrupt import interruptible
from tacit.cli.output import emit, error_line, one_of
from tacit.cli.progress import bar
from tacit.errors import InputError

if TYPE_CHECKING:
    from tacit.datasets import Dataset
    from tacit.experiments import Request, Training

_OBSERVERS = ("messages", "sum")
_RELATIONS = ("replace_one", "zero_out")
_REFERENCE_CELLS = 10_000_000


def train(  # noqa: PLR0913, PLR0917 - one parameter per option
    data: Annotated[
        str, typer.Argument(help="adult, breast_cancer, digits, mnist, fashion_mnist.")
    ],
    epsilon: Annotated[float, typer.Option(help="Total budget; inf for a run without noise.")],
    delta: Annotated[float, typer.Option(help="Total budget; at most 1/(10 x records).")],
    agents: Annotated[int, typer.Option(help="Among how many the records are dealt.")] = 10,
    observer: Annotated[
        str, typer.Option(help="messages: every link is read; sum: secure aggregation.")
    ] = "messages",
    relation: Annotated[str, typer.Option(help="replace_one or zero_out.")] = "replace_one",
    algorithm: Annotated[
        str, typer.Option(help="noisy-gradient, dp-admm or dp-sgd.")
    ] = "noisy-gradient",
    rounds: Annotated[int | None, typer.Option(help="The algorithm's own if not given.")] = None,
    sampling_rate: Annotated[
        float | None, typer.Option(help="Of dp-sgd's batches: 0.1 if not given.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the noise: then the run is a reproduction, not private.")
    ] = None,
    split_seed: Annotated[int, typer.Option(help="Of the split and of the dealing out.")] = 0,
    out: Annotated[Path | None, typer.Option(help="A new folder for the report.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier report.")] = False,
    reference: Annotated[
        bool, typer.Option("--reference", help="Non-private optimum for large data too.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object, nothing else.")] = False,
) -> None:
    """Train a classifier on a data set under a total privacy budget."""
    asked = {
        "agents": agents, "epsilon": epsilon, "delta": delta, "observer": observer,
        "relation": relation, "algorithm": algorithm, "rounds": rounds, "seed": seed,
        "split_seed": split_seed, "sampling_rate": sampling_rate,
    }  # fmt: skip
    dataset, request = interruptible(lambda: _prepared(data, asked, out=out, force=force))
    if not json:
        typer.echo(_heading(dataset, request))
    shown = sys.stderr.isatty() and not (json or quiet)
    training = _trained(dataset, request, reference=reference, shown=shown)
    _deliver(training, out=out, force=force, json=json)


def check_request(request: Request) -> None:
    """Raise unless everything in the request that needs no data is in order.

    Raises
    ------
    InputError
        With the fix.
    """
    from tacit.experiments import ALGORITHMS, training  # noqa: PLC0415 - start-up

    one_of("--algorithm", request.algorithm, ALGORITHMS)
    one_of("--observer", request.observer, _OBSERVERS)
    one_of("--relation", request.relation, _RELATIONS)
    checks.at_least("agents", request.agents, 1)
    if request.rounds is not None:
        checks.at_least("rounds", request.rounds, 1)
    training.sampling_rate(request)
    checks.positive("epsilon", request.epsilon, allow_infinity=True)
    checks.delta(request.delta)
    check_seed("split-seed", request.split_seed)
    if request.seed is not None:
        check_seed("seed", request.seed)


def check_seed(name: str, seed: int) -> None:
    """Raise `InputError` unless the seed fits the generators: 0 to 2^63 - 1."""
    if not 0 <= seed < 2**63:
        raise InputError(f"{name} is {seed}; it must be a whole number from 0 to 2^63 - 1")


def _prepared(
    data: str, asked: dict[str, Any], *, out: Path | None, force: bool
) -> tuple[Dataset, Request]:
    """Return the data and the request, after every check that comes before training."""
    from tacit.datasets import load  # noqa: PLC0415 - start-up
    from tacit.experiments import Request  # noqa: PLC0415 - start-up
    from tacit.report import check_out  # noqa: PLC0415 - start-up

    request = Request(**asked)
    check_request(request)
    if out is not None:
        check_out(out, force=force)
    dataset = load(data)
    _check_shares(dataset, request.agents)
    return dataset, request


def _trained(dataset: Dataset, request: Request, *, reference: bool, shown: bool) -> Training:
    from tacit.experiments import training  # noqa: PLC0415 - start-up

    wanted = reference or small(dataset)
    # the bar stays on this thread: when Ctrl-C ends it, it gives the terminal's cursor back
    with bar(_rounds(request), shown=shown) as report:
        return interruptible(
            lambda: training.train(dataset, request, reference=wanted, report=report)
        )


def _rounds(request: Request) -> int:
    from tacit.experiments.training import DEFAULT_ROUNDS  # noqa: PLC0415 - start-up

    return request.rounds or DEFAULT_ROUNDS


def _check_shares(dataset: Dataset, agents: int) -> None:
    if agents > dataset.train_rows:
        raise InputError(
            f"{agents} agents cannot share {dataset.train_rows} training records; "
            f"ask for at most {dataset.train_rows}"
        )


def small(dataset: Dataset) -> bool:
    """Whether the training part has at most 10 million cells, so that its optimum costs seconds."""
    columns = len(dataset.feature_names)
    return dataset.train_rows * columns <= _REFERENCE_CELLS


def _heading(dataset: Dataset, request: Request) -> str:
    agents = "1 agent" if request.agents == 1 else f"{request.agents} agents"
    return (
        f"Training on {dataset.title}: {dataset.train_rows:,} records, {agents}\n"
        f"{request.algorithm}, {_rounds(request)} rounds; observer {request.observer}, relation "
        f"{request.relation}, split seed {request.split_seed}"
    )


def _deliver(training: Training, *, out: Path | None, force: bool, json: bool) -> None:
    from tacit.report import results, save  # noqa: PLC0415 - start-up

    for warning in training.warnings:
        error_line(warning, kind="warning: ")
    if out is not None:
        save(training, out, force=force)
    if json:
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
    if not training.dataset.public:
        return ["Test error not shown: the data is not public"]
    error = f"Test error {training.metrics.test_error:.2%}"
    if training.nonprivate is None:
        return [f"{error} (non-private optimum not computed; --reference does)"]
    return [f"{error} (non-private optimum {training.nonprivate.test_error:.2%})"]


def _where(out: Path) -> str:
    return f"Report: {out / 'report.html'}"
