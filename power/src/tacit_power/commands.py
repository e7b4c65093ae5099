"""What this package adds to the command line of tacit."""

from tacit.cli import Command

COMMANDS = (
    Command("grid", "Agree on a dispatch, or on the state of a network, among zones whose demand is private.",
            "tacit_power.command:grid"),
)  # fmt: skip
