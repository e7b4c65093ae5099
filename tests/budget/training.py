"""Real trainings that are killed: `python -m tests.budget.training FOLDER NAME WITNESS`.

The witness hears of a run from its first finished round on: then answers have left the door.
"""

import os
import sys
from pathlib import Path

from tacit.budget import Account
from tacit.datasets import load
from tacit.proposal import Request, StructureRequest
from tacit.training import divide, proposal_for, reserved, train
from tests.budget.crashing import answer

REQUEST = Request(epsilon=0.01, delta=1e-6, rounds=12)


def main():
    folder, name, witness = sys.argv[1:]
    log = os.open(witness, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    account = Account(name, Path(folder))
    data = divide(load("breast_cancer"), 3, split_seed=0)
    proposal = proposal_for(data, REQUEST, StructureRequest())
    train(data, proposal, reference=False, seed=0)  # compile, charged nowhere
    os.write(1, b"ready\n")
    while True:
        plan = proposal.plan()
        reservation = reserved(account, proposal, plan, seed=None, what="a training")
        train(
            data,
            proposal,
            reference=False,
            account=reservation,
            report=lambda _, run=reservation.run: answer(log, run),
        )


if __name__ == "__main__":
    main()
