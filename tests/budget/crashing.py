"""Processes that charge an account and are killed: their driver, and the witness of what they said.

`python -m tests.budget.crashing FOLDER NAME WITNESS RUNS SEED` charges runs of its own to an
account. With RUNS = 0 it forks a process that goes on for ever for each line of its standard input,
a seed, and writes its number: importing takes seconds, and a kill milliseconds. An answer is one
line in the file of the witness, which nothing of taciturn writes; what is answered counts from the
moment at which its `write` is called.
"""

import os
import random
import signal
import sys
from pathlib import Path

from taciturn.budget import Account, Charge, Purpose
from taciturn.errors import TaciturnError
from taciturn.kernel.privacy import GaussianAnswer

MU = 2.0**-10  # its square is exact in binary


def charge():
    return Charge(
        "replace_one", "record", (((GaussianAnswer(1 / MU), 1),),), values=1, least_scale=2.0**24
    )


def answer(witness, run):
    os.write(witness, f"{run}\n".encode())


def drive(account, witness, runs, seed):
    """Charge runs, one after another: some end before their mark, some after it, most answer."""
    draw = random.Random(seed)
    for number in range(runs):
        reservation = account.reserve(charge(), Purpose(f"run {number}", None, "0", 1, 1e-6, MU, 1))
        if draw.random() < 0.2:
            reservation.give_back()
            continue
        reservation.begin()
        if draw.random() < 0.1:
            reservation.close(released=False)
            continue
        answer(witness, reservation.run)
        reservation.close(released=True)


def answered(witness):
    """Return the runs that the witness has whole lines of."""
    text = Path(witness).read_text() if Path(witness).exists() else ""
    return {line for line in text.split("\n")[:-1] if line}


def check(account, witness):
    """Return the state after checking it against the witness; every answer is charged."""
    state = account.state()
    said = answered(witness)
    charged = {run.run for run in state.charged}
    assert said <= charged, said - charged
    assert state.total.squares >= len(said) * MU**2
    # what came back was never marked, and so never answered
    returned = {run.run for run in state.runs if run.status == "returned"}
    assert not returned & said
    return state


def forked(work):
    """Fork a process for each line of standard input, which does `work(line)`; write its number."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that were killed
    os.write(1, b"ready\n")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            work(line)
            os._exit(0)
        os.write(1, f"{child}\n".encode())


def main():
    folder, name, witness, runs, seed = sys.argv[1:]
    log = os.open(witness, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    account = Account(name, Path(folder))
    try:
        if int(runs) == 0:
            forked(lambda line: drive(account, log, 10**9, int(line)))
        drive(account, log, int(runs), int(seed))
    except TaciturnError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
