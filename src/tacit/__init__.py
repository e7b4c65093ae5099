"""tacit: differentially private distributed convex optimisation.

Importing the package switches JAX to 64-bit types (`jax_enable_x64`), a setting of the whole
process and, where JAX is not imported yet, of those that it starts: without it JAX silently narrows
every float64 to float32, and a plan that asks for double precision would run in single. A plan in
float32 stays in float32.

The names below are what most programs need; they are imported when they are first used. All others
stand in the rooms: `tacit.problems`, `tacit.privacy`, `tacit.network`, `tacit.oracles`,
`tacit.algorithms`, `tacit.engine`, `tacit.proposal`, `tacit.audit`, `tacit.estimators`.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

if "jax" in sys.modules:
    sys.modules["jax"].config.update("jax_enable_x64", True)
else:  # which takes half a second, and reads this when it is imported
    os.environ["JAX_ENABLE_X64"] = "1"

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tacit.algorithms import ADMM as ADMM
    from tacit.algorithms import DPADMM as DPADMM
    from tacit.algorithms import NIDS as NIDS
    from tacit.algorithms import RECAL as RECAL
    from tacit.algorithms import LinearisedADMM as LinearisedADMM
    from tacit.algorithms import NoisyGradient as NoisyGradient
    from tacit.engine import Plan as Plan
    from tacit.engine import Run as Run
    from tacit.engine import plan as plan
    from tacit.engine import run as run
    from tacit.engine import sweep as sweep
    from tacit.oracles import Gradient as Gradient
    from tacit.oracles import MinibatchGradient as MinibatchGradient
    from tacit.oracles import ProximalStep as ProximalStep
    from tacit.privacy import Adjacency as Adjacency
    from tacit.privacy import Messages as Messages
    from tacit.privacy import ReplaceOne as ReplaceOne
    from tacit.privacy import Sum as Sum
    from tacit.privacy import Terms as Terms
    from tacit.privacy import ZeroOut as ZeroOut
    from tacit.problems import L1 as L1
    from tacit.problems import L2 as L2
    from tacit.problems import Ball as Ball
    from tacit.problems import Box as Box
    from tacit.problems import Logistic as Logistic
    from tacit.problems import MultinomialLogistic as MultinomialLogistic
    from tacit.problems import NoRegulariser as NoRegulariser
    from tacit.problems import Problem as Problem
    from tacit.problems import Squared as Squared
    from tacit.problems import WholeSpace as WholeSpace
    from tacit.problems import minimise as minimise
    from tacit.problems import pack as pack
    from tacit.problems import public_facts as public_facts
    from tacit.proposal import Proposal as Proposal
    from tacit.proposal import Request as Request
    from tacit.proposal import propose as propose

_ROOMS = {
    "algorithms": ("ADMM", "DPADMM", "NIDS", "RECAL", "LinearisedADMM", "NoisyGradient"),
    "engine": ("Plan", "Run", "plan", "run", "sweep"),
    "oracles": ("Gradient", "MinibatchGradient", "ProximalStep"),
    "privacy": ("Adjacency", "Messages", "ReplaceOne", "Sum", "Terms", "ZeroOut"),
    "problems": (
        "L1", "L2", "Ball", "Box", "Logistic", "MultinomialLogistic", "NoRegulariser", "Problem",
        "Squared", "WholeSpace", "minimise", "pack", "public_facts",
    ),
    "proposal": ("Proposal", "Request", "propose"),
}  # fmt: skip
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = sorted(_ROOM_OF)  # noqa: PLE0605 - the table above is the list


def __getattr__(name: str) -> Any:
    """Return a name of one of the rooms, which is imported now: together they take two seconds."""
    if name not in _ROOM_OF:
        raise AttributeError(f"tacit has no {name!r}; its names are {', '.join(__all__)}")
    return getattr(importlib.import_module(f"tacit.{_ROOM_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
