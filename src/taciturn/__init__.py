"""taciturn: differentially private distributed convex optimisation.

Importing the package switches JAX to 64-bit types (`jax_enable_x64`), in the whole process and, if
JAX is not yet imported, in the processes that it starts: otherwise JAX silently narrows every
float64 to float32, and a plan in double precision would run in single. A plan in float32 stays in
float32.

The names below are those that most programs need, imported on first use. All others are in the
subpackages `taciturn.problems`, `taciturn.kernel.privacy`, `taciturn.network`,
`taciturn.kernel.questions`, `taciturn.algorithms`, `taciturn.engine`, `taciturn.training`,
`taciturn.audit`, `taciturn.estimators`, `taciturn.regression`.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

if "jax" in sys.modules:
    sys.modules["jax"].config.update("jax_enable_x64", True)
else:  # importing JAX takes half a second; it then reads this variable
    os.environ["JAX_ENABLE_X64"] = "1"

__version__ = "0.1.0"

if TYPE_CHECKING:
    from taciturn.algorithms import ADMM as ADMM
    from taciturn.algorithms import DPADMM as DPADMM
    from taciturn.algorithms import NIDS as NIDS
    from taciturn.algorithms import RECAL as RECAL
    from taciturn.algorithms import LinearisedADMM as LinearisedADMM
    from taciturn.algorithms import NoisyGradient as NoisyGradient
    from taciturn.algorithms import ServerMethod as ServerMethod
    from taciturn.algorithms import register as register
    from taciturn.audit import check as check
    from taciturn.engine import Plan as Plan
    from taciturn.engine import Run as Run
    from taciturn.engine import run as run
    from taciturn.engine import sweep as sweep
    from taciturn.engine.methods import compare as compare
    from taciturn.engine.methods import plan as plan
    from taciturn.estimators import deal as deal
    from taciturn.kernel.privacy import Adjacency as Adjacency
    from taciturn.kernel.privacy import Messages as Messages
    from taciturn.kernel.privacy import ReplaceOne as ReplaceOne
    from taciturn.kernel.privacy import Sum as Sum
    from taciturn.kernel.privacy import Terms as Terms
    from taciturn.kernel.privacy import ZeroOut as ZeroOut
    from taciturn.kernel.questions import Gradient as Gradient
    from taciturn.kernel.questions import MinibatchGradient as MinibatchGradient
    from taciturn.kernel.questions import ProximalStep as ProximalStep
    from taciturn.kernel.records import pack as pack
    from taciturn.problems import L1 as L1
    from taciturn.problems import L2 as L2
    from taciturn.problems import Ball as Ball
    from taciturn.problems import Box as Box
    from taciturn.problems import Logistic as Logistic
    from taciturn.problems import MultinomialLogistic as MultinomialLogistic
    from taciturn.problems import NoRegulariser as NoRegulariser
    from taciturn.problems import Problem as Problem
    from taciturn.problems import Squared as Squared
    from taciturn.problems import WholeSpace as WholeSpace
    from taciturn.problems import minimise as minimise
    from taciturn.problems import public_facts as public_facts
    from taciturn.regression import PrivateGLM as PrivateGLM
    from taciturn.training import Proposal as Proposal
    from taciturn.training import Request as Request
    from taciturn.training import propose as propose

_ROOMS = {
    "algorithms": (
        "ADMM", "DPADMM", "NIDS", "RECAL", "LinearisedADMM", "NoisyGradient", "ServerMethod",
        "register",
    ),
    "engine": ("Plan", "Run", "run", "sweep"),
    "audit": ("check",),
    "engine.methods": ("compare", "plan"),
    "estimators": ("deal",),
    "kernel.questions": ("Gradient", "MinibatchGradient", "ProximalStep"),
    "kernel.privacy": ("Adjacency", "Messages", "ReplaceOne", "Sum", "Terms", "ZeroOut"),
    "kernel.records": ("pack",),
    "problems": (
        "L1", "L2", "Ball", "Box", "Logistic", "MultinomialLogistic", "NoRegulariser", "Problem",
        "Squared", "WholeSpace", "minimise", "public_facts",
    ),
    "regression": ("PrivateGLM",),
    "training": ("Proposal", "Request", "propose"),
}  # fmt: skip
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = sorted(_ROOM_OF)  # noqa: PLE0605 - the table above is the list


def __getattr__(name: str) -> Any:
    """Import and return a name on first use: importing all of them takes two seconds."""
    if name not in _ROOM_OF:
        raise AttributeError(f"taciturn has no {name!r}; its names are {', '.join(__all__)}")
    return getattr(importlib.import_module(f"taciturn.{_ROOM_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
