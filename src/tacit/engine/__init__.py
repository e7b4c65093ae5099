"""The engine: from public facts to a plan, and from a plan behind doors to a run."""

from tacit.engine.charging import (
    Charged,
    ChargedTo,
    charge_of,
    charge_of_ledger,
    check_chargeable,
    reserve,
    returned_on_error,
)
from tacit.engine.door import Door, Live, Private, Record, Recorded, Replay, Rival
from tacit.engine.network import Traffic
from tacit.engine.planning import Plan, plan
from tacit.engine.processes import Processes, versions
from tacit.engine.program import Program, cast, stack
from tacit.engine.protocol import Trace, observed_ledger
from tacit.engine.running import Run, Runtime, behind_the_door, run
from tacit.engine.runtimes import serial, simulate, sweep
from tacit.engine.traffic import Shapes, shapes_of, traffic_of
from tacit.network import Network

__all__ = [
    "Charged",
    "ChargedTo",
    "Door",
    "Live",
    "Network",
    "Plan",
    "Private",
    "Processes",
    "Program",
    "Record",
    "Recorded",
    "Replay",
    "Rival",
    "Run",
    "Runtime",
    "Shapes",
    "Trace",
    "Traffic",
    "behind_the_door",
    "cast",
    "charge_of",
    "charge_of_ledger",
    "check_chargeable",
    "observed_ledger",
    "plan",
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
