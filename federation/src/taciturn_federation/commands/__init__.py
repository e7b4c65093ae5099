"""What this package adds to the command line of taciturn."""

from taciturn.cli import Command

COMMANDS = (
    Command("study", "Coordinate a study across machines: invite, admit, propose, run.",
            "taciturn_federation.commands.engines:study"),
    Command("site", "Take part in a study with a file that stays here: join, check, run.",
            "taciturn_federation.commands.engines:site"),
)  # fmt: skip
