"""What this package adds to the command line of taciturn."""

from taciturn.cli import Command

COMMANDS = (
    Command("attack", "Show what the links of a published method, and of a sound one, reveal.",
            "taciturn_papers.commands.attack:attack"),
    Command("claims", "List published claims, or decide one by computation.",
            "taciturn_papers.commands.claims:claims"),
    Command("published", "Run a method as its paper prints it; a reproduction, not private.",
            "taciturn_papers.commands.published:published"),
    Command("reproduce", "Repeat the experiments of a paper and report them on one page.",
            "taciturn_papers.commands.reproduce:reproduce"),
)  # fmt: skip
