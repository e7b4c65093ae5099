"""`taciturn train`: a private training on a data set or a table, its certificate and its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from taciturn import training
from taciturn.algorithms import Method
from taciturn.budget import Account
from taciturn.cli import cluster, console
from taciturn.cli.accounts import ACCOUNT_OPTIONS, account_given, confirmed, failed_if_interrupted
from taciturn.cli.console import OUTPUT, Force, Json, Option, Quiet, Seed, path_option
from taciturn.cli.options import (
    all_options,
    import_own_parts,
    methods_with,
    run_options,
)
from taciturn.cli.outcome import Keeper, Output, deliver, warned
from taciturn.cli.records import counted_records, is_table
from taciturn.cli.vault import methods_elsewhere
from taciturn.datasets import FACTS
from taciturn.engine import check_chargeable
from taciturn.engine.processes import Processes, disconnect
from taciturn.errors import InputError
from taciturn.problems import Named
from taciturn.report import check_out
from taciturn.tables import Report
from taciturn.training import Counted, Division, Proposal, Training, check_seed
from taciturn.training.request import METHOD


def _printable(text: str) -> str:
    console.path(text)
    return text


_REFERENCE_CELLS = 10_000_000  # of the training part: the optimum takes seconds
_OPTIONS: dict[str, Option] = {
    **all_options(),
    **console.TABLE_OPTIONS,
    **ACCOUNT_OPTIONS,
    **cluster.OPTIONS,
}


@console.takes(_OPTIONS)
def train(  # noqa: PLR0913 - one parameter per option
    *,
    data: Annotated[
        str,
        typer.Argument(
            callback=_printable,
            help=f"{', '.join(FACTS)}; a CSV or Parquet file; or a folder with a file per agent.",
        ),
    ],
    proposal: Annotated[
        Path | None, path_option("Run a proposal that plan --out wrote.", OUTPUT)
    ] = None,
    seed: Seed = None,
    out: Annotated[Path | None, path_option("A new folder for the report.")] = None,
    force: Force = False,
    reference: Annotated[
        bool,
        typer.Option(
            "--reference",
            help="Compute the non-private optimum even for large data.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    vault: Annotated[
        bool,
        typer.Option(
            "--vault",
            help="Run a method of your own in a separate process, without the records.",
            rich_help_panel=METHOD,
        ),
    ] = False,
    oracle_metrics: Annotated[
        bool,
        typer.Option(
            "--oracle-metrics",
            help="Write non-private metrics on the records of a table.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
    **given: Any,
) -> None:
    """Train a model on a data set or a table within a total privacy budget."""
    tables = {name: given.pop(name) for name in console.TABLE_OPTIONS}
    output = Output(out, force, reference, oracle_metrics, json)
    if seed is not None:
        check_seed("seed", seed)
    processes = cluster.join(given)
    named = Path(data) if is_table(data) else data
    same = {**given, **tables, "proposal": proposal, "seed": seed, "data": named}
    del same["accounts"]  # the folder of accounts may differ between machines
    cluster.check_among(processes, output, same)
    account = account_given(given, charges=processes.first)
    if account is not None:
        check_chargeable(seed=seed, conditional=False)
    shown = not (json or quiet) and processes.first
    requested = _Requested(data, tables, given, output, proposal, processes, vault)
    with console.reading_bar(shown=shown and is_table(data)) as reading:
        prepared = console.interruptible(lambda: _prepared(requested, account, reading))
    heading = None if json else partial(console.say, _heading(prepared, seed))
    keeper = Keeper(output if processes.first else replace(output, out=None))
    trained = _trained(prepared, keeper, processes, seed=seed, shown=shown, started=heading)
    try:
        if processes.first:
            deliver(trained, keeper)
    finally:  # last: if another process was lost, JAX ends this one as it disconnects
        if processes.count > 1:
            disconnect()


@dataclass(frozen=True, eq=False)
class _Requested:
    """The options of the command, and the processes that take part."""

    data: str
    tables: dict[str, Any]
    given: dict[str, Any]
    output: Output
    proposal: Path | None
    processes: Processes
    vault: bool

    def methods_of(self, name: str) -> Mapping[str, Method]:
        """Return the table of methods, including the named one, whose code may run elsewhere."""
        if self.vault and self.processes.count > 1:
            raise InputError("--vault is for one process; leave it out, or the others")
        return methods_elsewhere(name) if self.vault else methods_with(name)


@dataclass(frozen=True, eq=False)
class _Prepared:
    """Counted records, a proposal for them, and the account to charge."""

    data: Counted
    proposal: Proposal
    methods: Mapping[str, Method]
    account: Account | None


def _prepared(requested: _Requested, account: Account | None, report: Report | None) -> _Prepared:
    """Return what will be run, after every check that precedes the charge; no cell is read."""
    output, given, name = requested.output, requested.given, requested.data
    if output.out is not None and requested.processes.first:  # which writes it
        check_out(output.out, force=output.force)
    proposal = options = bounds = None
    import_own_parts(given)  # which a proposal may name
    if requested.proposal is None:
        options = run_options(given, methods_of=requested.methods_of)
        methods = options.request.methods
    else:
        proposal = Proposal.from_json(console.read_text(requested.proposal))
        _refuse_options(requested.tables, given, proposal)
        methods = requested.methods_of(proposal.method.name)
        bounds = None if proposal.data.table is None else proposal.data.table.bounds

    def division(owned: bool) -> Division:
        if options is not None:
            return options.division(published=not is_table(name))
        assert proposal is not None
        return Division.of_proposal(proposal, owned=owned)

    data = counted_records(name, requested.tables, output, division, bounds, report)
    if options is not None:
        proposal = training.proposal_for(data, options.request, options.structure)
    assert proposal is not None
    training.check_data(data, proposal)
    if account is not None:
        account = confirmed(account, (file.digest for file in data.files), data.columns)
    return _Prepared(data, proposal, methods, account)


def _refuse_options(tables: dict[str, Any], given: dict[str, Any], proposal: Proposal) -> None:
    """Raise if an option contradicts a proposal; options may name the code that it needs.

    **Guarantee.** A proposal is data: no module is imported because a proposal names it, unless
    the user names the same one.
    """
    name = proposal.method.name
    if ":" in name and given["algorithm"] != name:
        raise InputError(
            f"the proposal is for a method outside the library, {name!r}; --algorithm {name} "
            "imports and runs that code, so add it if you trust it"
        )
    options = {**given, "target": tables["target"], "bounds": tables["bounds"]}
    for what in ("loss", "regulariser", "constraint"):
        if options[what] == str(getattr(proposal, what)) and Named.is_custom(options[what]):
            del options[what]
    if ":" in name:
        del options["algorithm"]
    also = console.first_given(options)
    if also:
        raise InputError(
            f"{also} is given with a proposal, which states everything public about the run; "
            "leave it out, or propose again"
        )


def _trained(
    prepared: _Prepared,
    keeper: Keeper,
    processes: Processes,
    *,
    seed: int | None,
    shown: bool,
    started: Callable[[], None] | None,
) -> Training:
    data, output = prepared.data, keeper.output
    cells = sum(data.all_counts) * prepared.proposal.data.coordinates
    small = processes.count == 1 and data.public and cells <= _REFERENCE_CELLS
    # the bar stays on this thread: when Ctrl-C ends it, it gives the terminal's cursor back
    interrupted = failed_if_interrupted(prepared.account)
    with interrupted, console.bar(prepared.proposal.rounds, shown=shown) as bar:
        return console.interruptible(
            lambda: training.training.train(
                data,
                prepared.proposal,
                reference=output.reference or small,
                oracle=output.oracle_metrics,
                seed=seed,
                report=bar,
                reading=None if bar is None else bar.reading,
                methods=prepared.methods,
                warn=warned,
                started=started,
                account=prepared.account,
                release=keeper.keep,
                processes=processes,
            )
        )


def _heading(prepared: _Prepared, seed: int | None) -> str:
    proposal = prepared.proposal
    agents = f"{len(proposal.counts)} agent{'' if len(proposal.counts) == 1 else 's'}"
    rounds = f"{proposal.rounds} round{'' if proposal.rounds == 1 else 's'}"
    if proposal.network is not None:
        tree = "the spanning tree of " if proposal.network.kind == "tree" else ""
        rounds += f" on {tree}{proposal.network.name}"
    by_seed, held = "", ""
    if proposal.data.table is None or seed is not None:  # else a secret draw divides the records
        by_seed = f", split seed {proposal.split_seed}"
    if proposal.evaluation is not None:
        rows = proposal.budget.rows_per_person
        unit = "records" if rows is None else "persons"
        number = sum(proposal.evaluation.counts) // (rows or 1)
        why = " for the evaluation" if proposal.asks else ", and asked nothing"
        held = f"; {number:,} {unit} held out{why}"
    return (
        f"Training on {prepared.data.title}: {proposal.units_text}, {agents}{held}\n"
        f"{proposal.method.name}, {rounds}; observer {proposal.budget.observer}, relation "
        f"{proposal.budget.relation}{by_seed}\n"
        f"Loss: {proposal.clipped_loss}"
    )
