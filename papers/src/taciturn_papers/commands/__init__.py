"""What this package adds to the command line of taciturn."""

from taciturn.cli import Command

COMMANDS = (
    Command("attack", "Show what the links of a published method, and of a sound one, reveal.",
            "taciturn_papers.commands.attack:attack"),
    Command("claims", "Decide published claims by computing them, or list them.",
            "taciturn_papers.commands.claims:claims"),
    Command("reproduce", "Run a paper's experiments again and write one page about them.",
            "taciturn_papers.commands.reproduce:reproduce"),
)  # fmt: skip
