"""What this package adds to the command line of taciturn."""

from taciturn.cli import Command

COMMANDS = (
    Command(
        "grid",
        "Agree on the state of a power network among zones that keep their demand private.",
        "taciturn_power.command:grid",
    ),
)
