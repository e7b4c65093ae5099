"""Table II: how long the methods take."""

from __future__ import annotations

import time
from collections.abc import Callable

import jax

from tacit.engine import Live, Plan, behind_the_door, simulate
from tacit.errors import InputError
from tacit.problems import Problem
from tacit_papers.reproductions.arms import Arm
from tacit_papers.reproductions.figure import Measured
from tacit_papers.reproductions.huang2019 import arms
from tacit_papers.reproductions.huang2019.measure import Records
from tacit_papers.reproductions.huang2019.settings import DELTA, NO_NOISE, Scale, Setting, published

Timings = dict[str, tuple[Measured | None, ...]]


def timings(one: Records, scale: Scale, report: Callable[[str], None]) -> Timings:
    """Return seconds of one run of every method at each of `scale.timed`, compilation not counted.

    None where a method cannot meet the budget. ADMM without noise knows no epsilon and is timed
    once.
    """
    if not scale.timed:
        return {}
    problem = arms.PROBLEMS["l2"]
    settings = [published(each, DELTA, scale.rounds) for each in scale.timed]
    table: Timings = {}
    for name in (arms.EXACT, arms.PVP, arms.DVP, arms.DP_ADMM):
        report(f"Table II: {name}")
        exact = name != arms.DP_ADMM
        arm = arms.exact_arm(name, scale) if exact else arms.published_arm("l2", scale)
        asked = [NO_NOISE] if name == arms.EXACT else settings
        plans = [_plan(arm, problem, one, setting) for setting in asked]
        found = tuple(None if p is None else seconds(p, one, scale.timings) for p in plans)
        table[name] = found if len(found) > 1 else found * len(settings)
    return table


def seconds(made: Plan, one: Records, times: int) -> Measured:
    """Return the wall time of a compiled run, measured `times` times after a first one."""
    program, private = made.program, behind_the_door(made, one.shards)
    door = Live(program.oracles, program.mechanism, jax.random.key(0))

    def once() -> float:
        began = time.perf_counter()
        model, _ = simulate(program, door, private, keep=frozenset())
        model.block_until_ready()
        return time.perf_counter() - began

    once()
    return Measured.of([once() for _ in range(times)])


def _plan(arm: Arm, problem: Problem, one: Records, setting: Setting) -> Plan | None:
    try:
        return arm.plan(problem, one.shards, setting.terms)
    except InputError:
        return None
