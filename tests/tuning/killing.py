"""`taciturn tune`, to be killed: `python -m tests.tuning.killing WITNESS ERRORS ARGUMENT...`.

For each line of standard input a process is forked, before anything is compiled, that runs the
command with the arguments; its number is written. The witness hears of every round of every
training: the number of the process, and the training.
"""

import itertools
import os
import sys

from tests.budget.crashing import answer, forked

from taciturn.cli.main import main as command
from taciturn.training import tuning


def watched(log):
    """Make every finished round of a training known to the witness."""
    train, numbers = tuning.train, itertools.count()

    def told(*given, **named):
        number = next(numbers)
        said = f"{os.getpid()} {number}"
        return train(*given, **named, report=lambda _: answer(log, said))

    tuning.train = told


def tuned(log, errors, arguments):
    os.dup2(os.open(errors, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    watched(log)
    command(arguments)


def main():
    witness, errors, *arguments = sys.argv[1:]
    log = os.open(witness, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    forked(lambda _: tuned(log, errors, arguments))


if __name__ == "__main__":
    main()
