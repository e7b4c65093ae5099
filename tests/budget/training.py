"""Real trainings that are killed: `python -m tests.budget.training FOLDER NAME WITNESS`.

For each line of standard input a process is forked, before anything is compiled, that trains again
and again until it is killed; its number is written. The witness hears of a run from its first
finished round on: then answers have left the door.
"""

import os
import sys
from pathlib import Path

from tests.budget.crashing import answer, forked

from taciturn.budget import Account
from taciturn.datasets import load
from taciturn.training import Request, StructureRequest, divide, proposal_for, train

REQUEST = Request(epsilon=0.01, delta=1e-6, rounds=12)


def run_of_this_process(account):
    """What the account calls the run that this process is charged for now."""
    runs = reversed(account.state().charged)
    return next(run.run for run in runs if run.process == os.getpid())


def trained(account, log):
    data = divide(load("breast_cancer"), 3, split_seed=0)
    proposal = proposal_for(data, REQUEST, StructureRequest())
    while True:
        train(
            data,
            proposal,
            account=account,
            report=lambda _: answer(log, run_of_this_process(account)),
        )


def main():
    folder, name, witness = sys.argv[1:]
    log = os.open(witness, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    forked(lambda _: trained(Account(name, Path(folder)), log))


if __name__ == "__main__":
    main()
