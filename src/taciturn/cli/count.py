"""`taciturn count`: tables by groups and survival curves, from one question within a budget."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from taciturn import counting, training
from taciturn.cli import console
from taciturn.cli.accounts import ACCOUNT_OPTIONS, account_given
from taciturn.cli.console import OUTPUT, Force, Json, Option, Quiet, path_option
from taciturn.cli.options import all_options, run_options
from taciturn.cli.outcome import Keeper, Output, computed, released, warned
from taciturn.cli.records import counted_records, numbers
from taciturn.cli.regress import no_budget
from taciturn.counting import CountedTables, CountingRequest, counted_tables
from taciturn.errors import InputError
from taciturn.report import charged_line, check_out, counting_page, save_noised, write_folder
from taciturn.tables import read_bounds
from taciturn.training import Attempts, Counted, Proposal, Training

_OF_RUN = ("epsilon", "delta", "agents", "observer", "colluders", "relation")
# intervals are of independent rows, all of which are counted; the target is a column as any other
_NOT_HERE = ("target", "test", "person_column", "leave_out")
_OPTIONS: dict[str, Option] = {
    **{name: one for name, one in all_options().items() if name in _OF_RUN},
    **{name: one for name, one in console.TABLE_OPTIONS.items() if name not in _NOT_HERE},
    **ACCOUNT_OPTIONS,
}
_ALONE = (
    "NOT PRIVATE: these counts are functions of the records alone. They may be seen where the "
    "records may be seen, and nothing of them may leave."
)


@console.takes(_OPTIONS)
def count(  # noqa: PLR0913 - one parameter per option
    *,
    data: Annotated[
        Path,
        typer.Argument(
            parser=console.path, help="A CSV or Parquet file, or a folder with a file per agent."
        ),
    ],
    tables: Annotated[
        list[str],
        typer.Argument(
            help='Such as "age(40,60) + sex | arm" and \'Surv(days, status == "dead") ~ arm\'.'
        ),
    ],
    cuts: Annotated[
        str | None,
        typer.Option(help="Of survival times: the inner ends of the grid, as 30,60,90."),
    ] = None,
    intervals: Annotated[
        int | None,
        typer.Option(help="Of survival times: the number of equal intervals. [default: 12]"),
    ] = None,
    without_privacy: Annotated[
        bool,
        typer.Option(
            "--without-privacy", help="The same without noise, for the owner's eyes alone."
        ),
    ] = False,
    expect: Annotated[
        str | None,
        typer.Option(
            help="Print the noise to expect at these budgets, as 0.5,1,3; nothing is asked."
        ),
    ] = None,
    out: Annotated[Path | None, path_option("A new folder for the tables.", OUTPUT)] = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
    **given: Any,
) -> None:
    """Count records in tables and survival curves, by one question within a total budget."""
    wanted = CountingRequest(tuple(tables), numbers("cuts", cuts), intervals)
    if expect is not None:
        _expect(data, wanted, given, numbers("expect", expect), json=json)
        return
    if without_privacy:
        given["epsilon"] = no_budget(given)
    account = account_given(given)
    keeper = Keeper(Output(out, force, False, False, json), save_noised)
    if out is not None:
        check_out(out, force=force)
    counted, proposal = _prepared(data, wanted, given)
    trained = released(counted, proposal, account, keeper, shown=not (quiet or json))
    found = computed(trained, keeper, lambda: counted_tables(proposal, trained.plan, trained.model))
    written = _write(found, trained, keeper)
    lines = computed(trained, keeper, lambda: _lines(found, trained, written))
    if json:
        console.emit({**found.to_dict(), "certificate": list(trained.certificate.lines())})
    else:
        if math.isinf(proposal.budget.epsilon):
            typer.secho(_ALONE, fg="red", err=True)
        typer.echo("\n".join(map(console.printable, lines)))
    if out is not None and (written is None or keeper.elsewhere is not None):
        raise typer.Exit(2)


def _expect(
    data: Path,
    wanted: CountingRequest,
    given: dict[str, Any],
    epsilons: tuple[float, ...],
    *,
    json: bool,
) -> None:
    """Print the noise of a count to expect at several budgets; no cell is read."""
    also = console.first_given(given, ("epsilon", "account"))
    if also:
        raise InputError(f"--expect says the budgets and charges nothing; leave {also} out")
    found = {}
    for epsilon in epsilons:
        _, proposal = _prepared(data, wanted, {**given, "epsilon": epsilon})
        found[epsilon] = counting.expected_noise(proposal)
    if json:
        console.emit({"expected": [{"epsilon": k, "noise": v} for k, v in found.items()]})
    else:
        typer.echo("\n".join(counting.expected_lines(found)))


def _prepared(
    data: Path, wanted: CountingRequest, given: dict[str, Any]
) -> tuple[Counted, Proposal]:
    """Return counted records and the proposal for them; no cell is read."""
    tables = {name: given.pop(name, None) for name in console.TABLE_OPTIONS}
    if tables["bounds"] is None:
        raise InputError(
            "tables need public bounds of the columns; write them with taciturn bounds, check "
            "them, and add --bounds FILE"
        )
    tables["target"] = read_bounds(tables["bounds"]).target_name
    options = run_options(dict.fromkeys(all_options()) | given)
    output = Output(None, False, False, False, True)
    counted = counted_records(
        str(data), tables, output, lambda _: options.division(published=False)
    )
    assert counted.facts.table is not None
    request = counting.counting_request(options.request, counted.facts.table.bounds, wanted)
    proposal = training.proposal_for(counted, request, options.structure)
    training.check_data(counted, proposal)
    return counted, proposal


def _write(found: CountedTables, trained: Training, keeper: Keeper) -> Path | None:
    """Write the tables beside the noised counts; return their file, None if it is not written."""
    folder = keeper.folder
    if folder is None or keeper.certificate is None:
        return None
    attempts = Attempts(warned)
    texts: dict[str, str | bytes] = {
        "counts.json": found.to_json(),
        "counts.csv": found.to_frame().to_csv(index=False),
        "proposal.json": trained.proposal.to_json() + "\n",
    }
    attempts.attempt("writing the tables", lambda: write_folder(texts, folder, force=True), None)

    def draw() -> None:
        page = counting_page(found, trained).html()
        write_folder({"report.html": page}, folder, force=True)

    attempts.attempt("drawing the page", draw, None)
    return None if attempts.failures else folder / "counts.csv"


def _lines(found: CountedTables, trained: Training, written: Path | None) -> list[str]:
    lines = counting.lines_of(found)
    lines += ["", "Certificate", *(f"  {line}" for line in trained.certificate.lines())]
    lines += ["", charged_line(trained.charged)]
    return [*lines, *([] if written is None else [f"Tables: {written}, and report.html beside"])]
