"""The engine: from public facts to a plan, and from a plan behind doors to a run."""

from taciturn.engine.charging import (
    Charged,
    ChargedTo,
    charge_of,
    charge_of_legs,
    check_chargeable,
    reserve,
    returned_on_error,
)
from taciturn.engine.door import Chance, Door, Live, Private, Record, Replay, Rival
from taciturn.engine.planning import Plan, plan
from taciturn.engine.processes import versions
from taciturn.engine.program import Program, cast, shapes_of, stack, traffic_of
from taciturn.engine.protocol import Trace, observed_ledger
from taciturn.engine.running import Run, behind_the_door, run
from taciturn.engine.runtimes import compute, reproduction, serial, simulate, sweep
from taciturn.engine.supply import Supply
from taciturn.network import Network

__all__ = [
    "Chance",
    "Charged",
    "ChargedTo",
    "Door",
    "Live",
    "Network",
    "Plan",
    "Private",
    "Program",
    "Record",
    "Replay",
    "Rival",
    "Run",
    "Supply",
    "Trace",
    "behind_the_door",
    "cast",
    "charge_of",
    "charge_of_legs",
    "check_chargeable",
    "compute",
    "observed_ledger",
    "plan",
    "reproduction",
    "reserve",
    "returned_on_error",
    "run",
    "serial",
    "shapes_of",
    "simulate",
    "stack",
    "sweep",
    "traffic_of",
    "versions",
]
