"""The commands that this package adds to taciturn."""

from taciturn.cli import Command

COMMANDS = (
    Command(
        "grid",
        "Solve a power flow of zones that keep their demand private.",
        "taciturn_power.command:grid",
    ),
)
