"""The engine: from public facts to a plan, and from a plan behind doors to a run."""

from taciturn.engine.charging import (
    Charged,
    ChargedTo,
    charge_of,
    charge_of_legs,
    check_chargeable,
    paying,
    purpose_of,
    release_on_error,
    reserve,
)
from taciturn.engine.methods import MethodPlan
from taciturn.engine.planning import Plan, plan
from taciturn.engine.processes import versions
from taciturn.engine.program import Program, cast, shapes_of, stack, traffic_of
from taciturn.engine.protocol import Trace
from taciturn.engine.running import Run, records_for_door, run
from taciturn.engine.runtimes import compute, reproduction, serial, simulate, sweep
from taciturn.network import Network

__all__ = [
    "Charged", "ChargedTo", "MethodPlan", "Network", "Plan", "Program", "Run", "Trace", "cast",
    "charge_of", "charge_of_legs", "check_chargeable", "compute", "paying", "plan", "purpose_of",
    "records_for_door", "release_on_error", "reproduction", "reserve", "run", "serial", "shapes_of",
    "simulate", "stack", "sweep", "traffic_of", "versions",
]  # fmt: skip
