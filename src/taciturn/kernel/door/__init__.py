"""The door: what holds the records answers questions, once each, under noise."""

from taciturn.kernel.door.door import Chance, Door, Live, Private, Record, Replay, Rival
from taciturn.kernel.door.observed import observed_ledger
from taciturn.kernel.door.supply import Agenda, Supply
from taciturn.kernel.door.turn import Turn

__all__ = [
    "Agenda",
    "Chance",
    "Door",
    "Live",
    "Private",
    "Record",
    "Replay",
    "Rival",
    "Supply",
    "Turn",
    "observed_ledger",
]
