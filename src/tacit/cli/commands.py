"""The commands: a name, a line of help, and where the function stands that is imported when called.

A package adds commands of its own through the entry point group `tacit.commands`; the entry point
is a sequence of `Command`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

ENTRY_POINTS = "tacit.commands"


@dataclass(frozen=True)
class Command:
    """A command of the command line.

    Attributes
    ----------
    name
        As it is typed.
    summary
        The first line of its help.
    function
        "module:function"; the module is imported when the command is called, and not before.
    """

    name: str
    summary: str
    function: str

    def load(self) -> Callable[..., Any]:
        """Return the function; its parameters are the command's arguments and options."""
        module, _, name = self.function.partition(":")
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return function


BUILT_IN = (
    Command(
        name="plan",
        summary="Predict noise and accuracy before spending anything: no data is read.",
        function="tacit.cli.plan:plan",
    ),
    Command(
        name="train",
        summary="Train on a data set or on a table of your own under a total privacy budget.",
        function="tacit.cli.train:train",
    ),
    Command(
        name="bounds",
        summary="Print a bounds file filled in from a table: edit it, then pass it to tacit train.",
        function="tacit.cli.bounds:bounds",
    ),
    Command(
        name="predict",
        summary="Predict the target of every row, as CSV on standard output; logistic ones with "
        "odds.",
        function="tacit.cli.predict:predict",
    ),
    Command(
        name="show",
        summary="Show what a model file says and what it guarantees.",
        function="tacit.cli.show:show",
    ),
    Command(
        name="grid",
        summary="Agree on the state of a power network among zones that keep their demand private.",
        function="tacit.power.command:grid",
    ),
    Command(
        name="account",
        summary="Total epsilon of noised answers from their multiplier, or the multiplier from the "
        "total.",
        function="tacit.cli.account:account",
    ),
    Command(
        name="audit",
        summary="Attack an algorithm, as planned or with a planted fault, on data that saturates "
        "its bound.",
        function="tacit.cli.audit:audit",
    ),
)

# what a package that is not installed would add
ELSEWHERE: Mapping[str, str] = dict.fromkeys(("claims", "reproduce", "attack"), "tacit-papers")


def commands() -> dict[str, Command]:
    """Return all commands by name: the built-in ones, then those of installed packages."""
    added = [command for point in entry_points(group=ENTRY_POINTS) for command in point.load()]
    return {command.name: command for command in (*BUILT_IN, *added)}
