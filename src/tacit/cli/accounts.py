"""The account that a command charges: its options, and reservations before cells are read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tacit.algorithms import Method
from tacit.budget import Account, Reservation, State, accounts_in, salted
from tacit.budget.process import is_gone
from tacit.cli.console import error_line
from tacit.engine import returned_on_error
from tacit.engine.mesh import check_devices
from tacit.engine.processes import Processes, shared_draw
from tacit.errors import InputError
from tacit.problems import Devices, Draw
from tacit.proposal import DataFacts, Proposal
from tacit.report.accounts import cost_text
from tacit.tables import Files, Report, table_of
from tacit.training import (
    DividedData,
    check_data,
    check_known,
    counts_ahead,
    divide,
    divide_local,
    kept_precision,
    reserved,
)

OPTIONS: Mapping[str, tuple[Any, str]] = {
    "account": (str, "The account to charge, by name (tacit budget open); charged nowhere if not."),
    "accounts": (Path, "The folder of accounts; that in the user's data folder if not given."),
}


def account_given(given: dict[str, Any], *, charges: bool = True) -> Account | None:
    """Take the options of the account out of those given, and return it; it must be usable.

    None where another process `charges` it.

    Raises
    ------
    InputError
        If there is no such account, or it is refused.
    """
    name, folder = given.pop("account"), given.pop("accounts")
    if name is None:
        if folder is not None:
            raise InputError("--accounts names a folder and no account; add --account NAME")
        return None
    if not charges:
        return None
    account = Account(name, folder)
    _tell_of_the_last(account.state())
    return account


def _tell_of_the_last(state: State) -> None:
    """Say what the last run was charged if it never ended; later ones say no more of it."""
    for run in state.charged[-1:]:
        if run.status == "opened" and is_gone(run.process):
            error_line(
                f"the last run of account {state.name!r} ({run.purpose.what}, {run.when}) was "
                f"killed after it was opened; it may have answered, and stays charged: "
                f"{cost_text(state, run)}",
                kind="warning: ",
            )


def charged_records(  # noqa: PLR0913 - what is read, and who pays
    files: Files,
    proposal: Proposal,
    methods: Mapping[str, Method],
    account: Account | None,
    report: Report | None = None,
    processes: Processes | None = None,
    *,
    seed: int | None = None,
) -> tuple[DividedData, Reservation | None]:
    """Return the records of a table with the reservation that was made before they were read.

    What is public, facts and counts, is compared with the proposal beforehand. From the mark on the
    charge stays, whatever the cells turn out to be.

    Parameters
    ----------
    account
        None where nothing is charged, or another process does it.
    processes
        Those of the run, if there are several: the first one charges, and none reads a cell before.
        Each has the rows of its own agents then, by the draw of the first.
    seed
        Of the noise of a reproduction, whose records are divided by the public split seed.
    """
    facts = DataFacts.of(files.bounds, proposal.data.features)
    agents = None if files.owners is not None else len(proposal.counts)
    rows, most = proposal.budget.rows_per_person, proposal.budget.agents_per_person
    counts = counts_ahead(
        files,
        agents,
        rows_per_person=rows,
        agents_per_person=most,
    )
    check_known(facts, counts, proposal, rows_per_person=rows)
    reservation, plan = None, proposal.plan(methods)
    if processes is not None:
        _check_alike(processes, files, proposal)
        check_devices(plan.program, Devices(), serial=False, masks=False)
    if account is not None:
        reservation = reserved(account, proposal, plan, seed=None, what=files.source.path.name)
        begun(reservation, files.tables)
    try:
        if processes is not None:  # the first comes here once its mark is on the disk
            processes.agree("charged", {})
        evaluation = proposal.evaluation
        how: dict[str, Any] = {
            "split_seed": proposal.split_seed,
            "draw": shared_draw(Draw.for_noise(seed, proposal.split_seed), processes),
            "features": proposal.data.features,
            "evaluate": None if evaluation is None else evaluation.share,
            "rows_per_person": rows,
            "agents_per_person": most,
        }
        read: dict[str, Any] = {
            "precision": kept_precision(proposal, files.source),
            "report": report,
        }
        if processes is None:
            records = divide(table_of(files, **read), agents, **how)
        else:
            records = divide_local(files, agents, Devices(), **how, **read)
        check_data(records, proposal)
    except BaseException:
        if reservation is not None:
            reservation.close(released=False)
        raise
    return records, reservation


def _check_alike(processes: Processes, files: Files, proposal: Proposal) -> None:
    """Raise `InputError` unless all processes have these files and this proposal, and all ask."""
    held = () if proposal.evaluation is None else proposal.evaluation.counts
    if 0 in held:
        raise InputError(
            "an agent has too few records to hold some out; among several processes all agents "
            "answer the evaluation, so hold out a larger share"
        )
    columns = [list(table.columns) for table in files.tables.values()]
    processes.agree("proposal", {"proposal": proposal.digest, "columns": columns})
    read = [*files.tables, *(() if files.tests is None else (files.tests.path,))]
    processes.agree("files", {"files": [_digest(file).hex() for file in read]})


def begun(reservation: Reservation, files: Iterable[Path]) -> None:
    """Write the mark after which records may be read, then what files are read; warn of others.

    A file that is charged to another account in the same folder is warned of: what one account
    promises does not hold for what the other answers.
    """
    with returned_on_error(reservation):
        reservation.begin()
    contents = [_digest(file) for file in files]
    reservation.note_files([salted(reservation.state.salt, content) for content in contents])
    for name in _elsewhere(reservation, contents):
        error_line(
            f"a file of this run is charged to account {name!r} too; the guarantees of both "
            "accounts add up for its records",
            kind="warning: ",
        )


def _elsewhere(reservation: Reservation, contents: list[bytes]) -> Iterable[str]:
    """Yield the other accounts in the folder that have one of these files."""
    for other in accounts_in(reservation.file.parent):
        try:
            state = other.state()
        except InputError:  # refused for a reason that its own use will tell
            continue
        known = {digest for run in state.charged for digest in run.files}
        mine = {salted(state.salt, content) for content in contents}
        if state.identity != reservation.state.identity and known & mine:
            yield other.name


def _digest(file: Path) -> bytes:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").digest()
    except OSError as error:
        raise InputError(
            f"{file} cannot be read ({error.strerror}); see that it is there"
        ) from error
