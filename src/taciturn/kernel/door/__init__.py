"""The door: the process with the records answers every question once, with noise."""

from taciturn.kernel.door.affine import AFFINE, CLEAN, TAINTED, has_no_effects, marks_out
from taciturn.kernel.door.choice import choose
from taciturn.kernel.door.door import (
    Chance,
    Door,
    Live,
    Private,
    Raw,
    Record,
    Turn,
    apart,
    at,
    exact_power_of_two,
    of_agent,
    over_agents,
    samples,
)
from taciturn.kernel.door.ledgers import (
    check_certificate,
    check_ledger,
    observed_ledger,
    planned_ledger,
    tested,
)
from taciturn.kernel.door.opening import (
    check_arithmetic,
    check_blocks,
    check_exact_noise,
    check_facts,
    check_part,
    opened,
)
from taciturn.kernel.door.pipe import answer_all, read_message, write_message
from taciturn.kernel.door.supply import Agenda, Supply

__all__ = [
    "AFFINE", "CLEAN", "TAINTED", "Agenda", "Chance", "Door", "Live", "Private", "Raw", "Record",
    "Supply", "Turn", "answer_all", "apart", "at", "check_arithmetic", "check_blocks",
    "check_certificate", "check_exact_noise", "check_facts", "check_ledger", "check_part", "choose",
    "exact_power_of_two", "has_no_effects", "marks_out", "observed_ledger", "of_agent", "opened",
    "over_agents", "planned_ledger", "read_message", "samples", "tested", "write_message",
]  # fmt: skip
