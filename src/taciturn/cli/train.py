"""`taciturn train`: a private training on a data set or a table, its certificate and its report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from taciturn import training
from taciturn.algorithms import Method
from taciturn.budget import Account, Reservation
from taciturn.cli import cluster, console
from taciturn.cli.accounts import ACCOUNT_OPTIONS, account_given, charged_records
from taciturn.cli.console import Force, Json, Quiet, Seed, path_option
from taciturn.cli.options import (
    all_options,
    import_own_parts,
    methods_with,
    rounds_help,
    run_options,
)
from taciturn.cli.outcome import Keeper, Output, deliver, warned
from taciturn.cli.records import check_output, is_table, loaded, source_of
from taciturn.cli.vault import methods_elsewhere
from taciturn.datasets import FACTS
from taciturn.engine import check_chargeable
from taciturn.engine.processes import Processes, disconnect
from taciturn.errors import InputError
from taciturn.kernel.records import Devices, Draw
from taciturn.problems import Named
from taciturn.report import check_out
from taciturn.tables import read_files
from taciturn.training import DividedData, Division, Proposal, Training, check_seed


def _printable(text: str) -> str:
    console.path(text)
    return text


_REFERENCE_CELLS = 10_000_000  # of the training part: the optimum then costs seconds
_OPTIONS: dict[str, tuple[Any, str]] = {
    **all_options(),
    "rounds": (int, rounds_help()),
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
            help=f"{', '.join(FACTS)}; a CSV or Parquet file; or a folder, a file per agent.",
        ),
    ],
    proposal: Annotated[
        Path | None, path_option("From plan --out, in place of its options.")
    ] = None,
    seed: Seed = None,
    out: Annotated[Path | None, path_option("A new folder for the report.")] = None,
    force: Force = False,
    reference: Annotated[
        bool, typer.Option("--reference", help="Compute the non-private optimum of large data too.")
    ] = False,
    vault: Annotated[
        bool,
        typer.Option("--vault", help="Run a method of your own in a process without the records."),
    ] = False,
    oracle_metrics: Annotated[
        bool, typer.Option("--oracle-metrics", help="Tables: write metrics on private records.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
    **given: Any,
) -> None:
    """Train on a data set or on a table of your own under a total privacy budget."""
    tables = {name: given.pop(name) for name in console.TABLE_OPTIONS}
    output = Output(out, force, reference, oracle_metrics, json)
    if seed is not None:
        check_seed("seed", seed)
    processes = cluster.join(given)
    named = Path(data) if is_table(data) else data
    alike = {**given, **tables, "proposal": proposal, "seed": seed, "data": named}
    del alike["accounts"]  # where each machine keeps its accounts is its own affair
    cluster.check_among(processes, output, alike)
    account = account_given(given, charges=processes.first)
    if account is not None:
        check_chargeable(seed=seed, conditional=False)
    shown = not (json or quiet) and processes.first
    with console.reading_bar(shown=shown and is_table(data)) as reading:
        output = replace(output, reading=reading)
        asked = _Asked(data, tables, given, output, proposal, seed, processes, vault)
        prepared = console.interruptible(lambda: _prepared(asked, account))
    try:
        if not json:
            console.say(_heading(prepared, seed))
        keeper = Keeper(output if processes.first else replace(output, out=None))
        trained = _trained(prepared, keeper, seed=seed, shown=shown)
    finally:
        if isinstance(prepared.account, Reservation):  # nothing, where the run has closed it
            prepared.account.close(released=False)
    try:
        if processes.first:
            deliver(trained, keeper)
    finally:  # not before: where another process was lost, JAX ends this one as it disconnects
        if processes.count > 1:
            disconnect()


@dataclass(frozen=True, eq=False)
class Prepared:
    """Records, a proposal that suits them, and the account that the run is charged to.

    A table was read behind its reservation; a data set is charged as the run begins.
    """

    records: DividedData
    proposal: Proposal
    methods: Mapping[str, Method]
    account: Account | Reservation | None


@dataclass(frozen=True, eq=False)
class _Asked:
    """What was typed, and the processes that were asked."""

    data: str
    tables: dict[str, Any]
    given: dict[str, Any]
    output: Output
    proposal: Path | None
    seed: int | None
    processes: Processes
    vault: bool

    def methods_of(self, name: str) -> Mapping[str, Method]:
        """Return the table of methods with one of that name, whose code may run elsewhere."""
        if self.vault and self.processes.count > 1:
            raise InputError("--vault is for one process; leave it out, or the others")
        return methods_elsewhere(name) if self.vault else methods_with(name)


def _prepared(asked: _Asked, account: Account | None) -> Prepared:
    """Return records and proposal after every check that precedes training.

    Cells of tables are read after the proposal is made and the account is charged. Data sets are
    published.
    """
    output, given, processes = asked.output, asked.given, asked.processes
    if output.out is not None and processes.first:  # which writes it
        check_out(output.out, force=output.force)
    proposal = options = None
    import_own_parts(given)  # which a proposal may name
    if asked.proposal is None:
        options = run_options(given, rounds=given["rounds"], methods_of=asked.methods_of)
        methods = options.request.methods
    else:
        proposal = Proposal.from_json(console.read_text(asked.proposal))
        _refuse_options(asked.tables, given, proposal)
        methods = asked.methods_of(proposal.method.name)
    if is_table(asked.data):  # counted, proposed, charged, then read
        check_output(output, public=False, name=asked.data)
        table = None if proposal is None else proposal.data.table
        known = None if table is None else table.bounds
        files = read_files(source_of(asked.data, asked.tables, known), known, output.reading)
        if options is not None:
            division = options.division()
            proposal = training.proposal_of_files(
                files, division, options.request, options.structure
            )
        assert proposal is not None
        records, reservation = charged_records(
            files, proposal, methods, account, output.reading, processes, seed=asked.seed
        )
        return Prepared(records, proposal, methods, reservation)
    dataset = loaded(asked.data, asked.tables, output)
    if options is not None:
        division = options.division()
    else:
        assert proposal is not None
        division = Division.of_proposal(proposal, owned=dataset.owners is not None)
    # the draw is the same in every process of the run
    draw = processes.share_draw(Draw.for_noise(asked.seed, division.split_seed))
    records = training.divide_records(dataset, division, draw)
    if options is not None:
        proposal = training.proposal_for(records, options.request, options.structure)
    assert proposal is not None
    training.check_data(records, proposal)
    if processes.count > 1:
        processes.agree({"proposal": proposal.digest})
        records = training.local_part(records, Devices())
    return Prepared(records, proposal, methods, account)


def _refuse_options(tables: dict[str, Any], given: dict[str, Any], proposal: Proposal) -> None:
    """Raise if an option contradicts a proposal; options may name the code that it needs.

    **Guarantee.** A proposal is data: no module is imported because a proposal names it, unless
    the user names the same one.
    """
    name = proposal.method.name
    if ":" in name and given["algorithm"] != name:
        raise InputError(
            f"the proposal is for a method of someone's own, {name!r}; --algorithm {name} imports "
            "and runs that code, so add it if you trust it"
        )
    said = {**given, "target": tables["target"], "bounds": tables["bounds"]}
    for what in ("loss", "regulariser", "constraint"):
        if said[what] == str(getattr(proposal, what)) and Named.is_own(said[what]):
            del said[what]
    if ":" in name:
        del said["algorithm"]
    also = console.first_given(said)
    if also:
        raise InputError(
            f"{also} is given with a proposal, which says everything public about the run; "
            "leave it out, or propose again"
        )


def _trained(prepared: Prepared, keeper: Keeper, *, seed: int | None, shown: bool) -> Training:
    dataset, output = prepared.records.dataset, keeper.output
    cells = dataset.train_rows * len(prepared.records.names)
    alone = prepared.records.local is None
    reference = output.reference or (alone and dataset.public and cells <= _REFERENCE_CELLS)
    # the bar stays on this thread: when Ctrl-C ends it, it gives the terminal's cursor back
    with console.bar(prepared.proposal.rounds, shown=shown) as report:
        return console.interruptible(
            lambda: training.training.train(
                prepared.records,
                prepared.proposal,
                reference=reference,
                oracle=output.oracle_metrics,
                seed=seed,
                report=report,
                methods=prepared.methods,
                warn=warned,
                account=prepared.account,
                release=keeper.keep,
            )
        )


def _heading(prepared: Prepared, seed: int | None) -> str:
    proposal, dataset = prepared.proposal, prepared.records.dataset
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
        f"Training on {dataset.title}: {proposal.units_text}, {agents}{held}\n"
        f"{proposal.method.name}, {rounds}; observer {proposal.budget.observer}, relation "
        f"{proposal.budget.relation}{by_seed}\n"
        f"Loss: {proposal.clipped_loss}"
    )
