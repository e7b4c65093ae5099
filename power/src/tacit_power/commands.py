"""What this package adds to the command line of tacit."""

from tacit.cli import Command

COMMANDS = (
    Command(
        "grid",
        "Agree on the state of a power network among zones that keep their demand private.",
        "tacit_power.command:grid",
    ),
)
