"""`taciturn regress`: a table of coefficients with standard errors, within a privacy budget."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from taciturn import checks, regression, training
from taciturn.cli import console
from taciturn.cli.accounts import ACCOUNT_OPTIONS, account_given
from taciturn.cli.console import OUTPUT, Force, Json, Option, Quiet, path_option
from taciturn.cli.options import all_options, run_options
from taciturn.cli.outcome import Keeper, Output, computed, released, warned
from taciturn.cli.records import counted_records, numbers
from taciturn.errors import InputError
from taciturn.regression import RegressionRequest, RegressionTable, regression_table
from taciturn.report import charged_line, check_out, regression_page, write_folder
from taciturn.training import Attempts, Counted, Proposal, Training
from taciturn.training.request import METHOD

_OF_RUN = ("epsilon", "delta", "agents", "observer", "colluders", "relation", "rounds")
_NOT_HERE = ("test", "person_column")  # standard errors are of independent rows
_OPTIONS: dict[str, Option] = {
    **{name: one for name, one in all_options().items() if name in _OF_RUN},
    "rounds": Option(int, "Number of rounds, at least 4. [default: 8; 9 with --robust]", METHOD),
    **{name: one for name, one in console.TABLE_OPTIONS.items() if name not in _NOT_HERE},
    **ACCOUNT_OPTIONS,
}
_FAMILIES = ", ".join(
    f"{name}:{','.join(one.numbers)}" if one.numbers else name
    for name, one in regression.FAMILIES.items()
)
REGRESSION_OPTIONS: dict[str, Option] = {
    "formula": Option(str, 'Such as "ill ~ age + C(sex) + age:sex". [default: every column]'),
    "family": Option(str, f"{_FAMILIES}. [default: {RegressionRequest().family}]"),
    "cuts": Option(str, "Of a survival time: the inner ends of its intervals, as 1,2,5."),
    "largest_hazard": Option(
        float,
        "Of a survival time: a record counts until its expected events add up to this. "
        f"[default: {RegressionRequest().most:g}]",
    ),
    "robust": Option(bool, "Standard errors that hold if the family is wrong."),
}
_ALONE = (
    "NOT PRIVATE: this table is a function of the records alone. It may be seen where the records "
    "may be seen, and nothing of it may leave."
)


@console.takes({**REGRESSION_OPTIONS, **_OPTIONS})
def regress(  # noqa: PLR0913 - one parameter per option
    *,
    data: Annotated[
        Path,
        typer.Argument(
            parser=console.path, help="A CSV or Parquet file, or a folder with a file per agent."
        ),
    ],
    without_privacy: Annotated[
        bool,
        typer.Option(
            "--without-privacy", help="The same without noise, for the owner's eyes alone."
        ),
    ] = False,
    expect: Annotated[
        str | None,
        typer.Option(
            help="Print the intervals to expect at these budgets, as 0.5,1,3; nothing is asked."
        ),
    ] = None,
    mean: Annotated[
        float | None,
        typer.Option(help="With --expect: a public guess of the share or mean of the response."),
    ] = None,
    out: Annotated[Path | None, path_option("A new folder for the table.", OUTPUT)] = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
    **given: Any,
) -> None:
    """Estimate a regression, with standard errors, within a total privacy budget."""
    wanted = regression_given(given) or RegressionRequest()
    if expect is not None:
        _expect(data, wanted, given, numbers("expect", expect), mean, json=json)
        return
    if without_privacy:
        given["epsilon"] = no_budget(given)
    account = account_given(given)
    keeper = Keeper(Output(out, force, False, False, json))
    if out is not None:
        check_out(out, force=force)
    counted, proposal = _prepared(data, wanted, given)
    trained = released(counted, proposal, account, keeper, shown=not (quiet or json))
    table = computed(
        trained, keeper, lambda: regression_table(proposal, trained.plan, trained.asked)
    )
    written = _write(table, trained, keeper)
    if json:
        console.emit({**table.to_dict(), "certificate": list(trained.certificate.lines())})
    else:
        if math.isinf(proposal.budget.epsilon):
            typer.secho(_ALONE, fg="red", err=True)
        typer.echo("\n".join(map(console.printable, _lines(table, trained, written))))
    lost = out is not None and (written is None or keeper.elsewhere is not None)
    if lost or table.refused is not None:
        raise typer.Exit(2)


def regression_given(given: dict[str, Any]) -> RegressionRequest | None:
    """Take `REGRESSION_OPTIONS` out of the options and return what they ask for; None for none."""
    options = {name: given.pop(name, None) for name in REGRESSION_OPTIONS}
    if console.first_given(options) is None:
        return None
    options |= {"cuts": numbers("cuts", options["cuts"]), "most": options.pop("largest_hazard")}
    return RegressionRequest(**{name: one for name, one in options.items() if one is not None})


def _prepared(
    data: Path, wanted: RegressionRequest, given: dict[str, Any]
) -> tuple[Counted, Proposal]:
    """Return counted records and the proposal for them; no cell is read."""
    tables = {name: given.pop(name, None) for name in console.TABLE_OPTIONS}
    if tables["bounds"] is None:
        raise InputError(
            "a regression needs public bounds of its columns; write them with taciturn bounds, "
            "check them, and add --bounds FILE"
        )
    if tables["target"] is None and wanted.formula is not None:
        tables["target"] = regression.response_name(wanted.formula)
    options = run_options(dict.fromkeys(all_options()) | given)
    output = Output(None, False, False, False, True)
    counted = counted_records(
        str(data), tables, output, lambda _: options.division(published=False)
    )
    assert counted.facts.table is not None
    bounds = counted.facts.table.bounds
    request = regression.regression_request(options.request, bounds, wanted)
    proposal = training.proposal_for(counted, request, options.structure)
    regression.parts_of(proposal)  # nothing may fail after the charge
    training.check_data(counted, proposal)
    return counted, proposal


def no_budget(given: dict[str, Any]) -> float:
    """Return infinity; `InputError` if a budget is given."""
    also = console.first_given(given, ("epsilon", "delta", "account"))
    if also:
        raise InputError(f"--without-privacy has no budget; leave {also} out")
    return math.inf


def _expect(
    data: Path,
    wanted: RegressionRequest,
    given: dict[str, Any],
    epsilons: tuple[float, ...],
    mean: float | None,
    *,
    json: bool,
) -> None:
    """Print the intervals to expect at several budgets."""
    also = console.first_given(given, ("epsilon", "account"))
    if also:
        raise InputError(f"--expect says the budgets and charges nothing; leave {also} out")
    found, records = [], 0
    for epsilon in epsilons:
        options = {**given, "epsilon": checks.positive("epsilon", epsilon)}
        _, proposal = _prepared(data, wanted, options)
        found.append(regression.expect(proposal, mean))
        records = sum(proposal.counts)
    if json:
        console.emit({"expected": [{**asdict(one), "blind": one.blind} for one in found]})
    else:
        typer.echo("\n".join(regression.expected_lines(found, records)))


def _write(table: RegressionTable, trained: Training, keeper: Keeper) -> Path | None:
    """Write the table beside model and certificate; return its file, None if it is not written.

    Without a table that is the page with the reason.
    """
    folder = keeper.folder
    if folder is None or keeper.certificate is None:
        return None
    name = "coefficients" if table.private else "not-private-coefficients"
    texts: dict[str, str | bytes] = {
        f"{name}.json": table.to_json(),
        "proposal.json": trained.proposal.to_json() + "\n",
    }
    if table.refused is None:
        texts |= {f"{name}.csv": table.to_frame().to_csv()}
        texts |= {f"{name}.tex": regression.latex_of(table)}
    attempts = Attempts(warned)
    attempts.attempt("writing the table", lambda: write_folder(texts, folder, force=True), None)

    def draw() -> None:
        page = regression_page(table, trained).html()
        write_folder({"report.html": page}, folder, force=True)

    attempts.attempt("drawing the page", draw, None)
    written = folder / (f"{name}.csv" if table.refused is None else "report.html")
    return None if attempts.failures else written


def _lines(table: RegressionTable, trained: Training, written: Path | None) -> list[str]:
    lines = regression.lines_of(table)
    lines += ["", "Certificate", *(f"  {line}" for line in trained.certificate.lines())]
    lines += ["", charged_line(trained.charged)]
    if written is None:
        return lines
    beside = "" if table.refused else ", and report.html beside it"
    return [*lines, f"{'The reason' if table.refused else 'Table'}: {written}{beside}"]
