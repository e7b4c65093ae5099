"""The account that a command charges: its options, and reservations before cells are read."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from taciturn import training
from taciturn.algorithms import Method
from taciturn.budget import Account, Reservation, salted
from taciturn.cli.console import error_line
from taciturn.engine import returned_on_error
from taciturn.engine.processes import Processes
from taciturn.engine.running import check_devices
from taciturn.errors import AccountError, InputError
from taciturn.kernel.records import Devices, Draw
from taciturn.report.accounts import cost_text
from taciturn.tables import Files, Report, table_of
from taciturn.training import DataFacts, Proposal

ACCOUNT_OPTIONS: Mapping[str, tuple[Any, str]] = {
    "account": (str, "The account to charge, by name (taciturn budget open). [default: none]"),
    "accounts": (Path, "The folder of accounts. [default: in the user's data folder]"),
    "another_table": (bool, "Charge --account though its runs read a table with other columns."),
    "another_account": (bool, "Charge --account though another was charged for a file."),
}


def account_given(given: dict[str, Any], *, charges: bool = True) -> Account | None:
    """Take the options of the account out of those given, and return it; it must be usable.

    None where no account is named, or another process charges it.
    """
    name, folder, *another = (given.pop(option, None) for option in ACCOUNT_OPTIONS)
    if name is None:
        if folder is not None:
            raise InputError("--accounts names a folder and no account; add --account NAME")
        if any(another):
            raise InputError("--another-table and --another-account go with --account NAME")
        return None
    if not charges:
        return None
    account = Account(name, folder, None, None, *map(bool, another))
    state = account.state()
    for run in state.charged[-1:]:
        if run.status == "opened":
            error_line(
                f"the last run of account {state.name!r} ({run.purpose.what}, {run.when}) is "
                f"under way or was killed; it may have answered, and stays charged: "
                f"{cost_text(state, run)}",
                kind="warning: ",
            )
    return account


def confirmed(account: Account, files: Iterable[Path]) -> tuple[Account, list[bytes]]:
    """Return the account for runs that read these files, and the digests of the files.

    If the account was charged for a table with other columns, or another account for one of the
    files, and no option says that this is meant, the user is asked; where nobody can answer, or the
    answer is no, an `AccountError` refuses the run.
    """
    contents = [_digest(file) for file in files]
    if _is_meant(account.check_table):
        account = replace(account, another_table=True)
    if _is_meant(lambda: account.check_files(contents)):
        account = replace(account, another_account=True)
    return account, contents


def _is_meant(check: Callable[[], None]) -> bool:
    """Return whether a check failed and the user says that this is meant; False if it passed."""
    try:
        check()
    except AccountError as error:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise
        error_line(str(error), kind="warning: ")
        if not typer.confirm("Charge it all the same?", err=True):
            raise
        return True
    return False


def charged_records(  # noqa: PLR0913 - what is read, and who pays
    files: Files,
    proposal: Proposal,
    methods: Mapping[str, Method],
    account: Account | None,
    report: Report | None = None,
    processes: Processes = Processes(),  # noqa: B008 - frozen
    *,
    seed: int | None = None,
) -> tuple[training.DividedData, Reservation | None]:
    """Return the records of a table with the reservation that was made before they were read.

    Public facts and counts are compared with the proposal first. The charge stays, whatever the
    cells turn out to be. Of several processes the first charges, and none reads a cell before; each
    keeps the rows of its own agents, by the draw of the first.
    """
    facts = DataFacts.of(files.bounds, proposal.data.features)
    division = training.Division.of_proposal(proposal, owned=files.owners is not None)
    rows = proposal.budget.rows_per_person
    training.check_known(facts, division.counts(files), proposal, rows_per_person=rows)
    reservation, plan = None, proposal.plan(methods)
    if processes.count > 1:
        training.check_all_hold_out(
            () if proposal.evaluation is None else proposal.evaluation.counts
        )
        columns = [list(table.columns) for table in files.tables.values()]
        processes.agree({"proposal": proposal.digest, "columns": columns})
        read = [*files.tables, *(() if files.tests is None else (files.tests.path,))]
        processes.agree_on_records("files", [_digest(file).hex() for file in read])
        check_devices(plan.program, Devices(), serial=False)
    if account is not None:
        account, contents = confirmed(account.for_table(files.columns), files.tables)
        reservation = training.reserved(
            account, proposal, plan, seed=None, what=files.source.path.name
        )
        begun(reservation, contents)
    try:
        processes.agree({"account": "charged"})  # the first comes here once its mark is on the disk
        precision = training.storage_precision(proposal, files.source)
        draw = processes.share_draw(Draw.for_noise(seed, proposal.split_seed))
        table = table_of(files, precision=precision, report=report)
        records = training.divide_records(table, division, draw)
        if processes.count > 1:
            records = training.local_part(records, Devices())
        training.check_data(records, proposal)
    except BaseException:
        if reservation is not None:
            reservation.close(released=False)
        raise
    return records, reservation


def begun(reservation: Reservation, contents: Iterable[bytes]) -> None:
    """Write the mark after which records may be read, then the digests of the files."""
    with returned_on_error(reservation):
        reservation.begin()
    reservation.note_files([salted(reservation.state.salt, content) for content in contents])


def _digest(file: Path) -> bytes:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").digest()
    except OSError as error:
        raise InputError(
            f"{file} cannot be read ({error.strerror}); see that it is there"
        ) from error
