"""From a request and public facts to a plan."""

from __future__ import annotations

import math

from tacit import checks
from tacit.algorithms import method_named
from tacit.experiments.request import Request, rounds_of, sampling_rate, terms_for
from tacit.plan import Plan, plan
from tacit.problems import Loss, Problem
from tacit.spec import Spec


def planned(problem: Problem, facts: Spec, request: Request) -> Plan:
    """Return the plan of a request, with settings from public facts alone.

    Raises
    ------
    InputError
        If the request cannot be met; the message names the fix.
    """
    method = method_named(request.algorithm)
    clip, rate = coefficient_clip(problem.loss, request), sampling_rate(request)
    return plan(
        facts,
        method.algorithm(problem),
        (method.question(problem.loss, clip=clip, rate=rate),),
        terms_for(request),
        rounds=checks.at_least("rounds", rounds_of(request), 1),
        precision="float32",
    )


def coefficient_clip(loss: Loss, request: Request) -> float:
    """Return the public bound on the coefficient of a record.

    By default it is the largest norm that the coefficient can have at the starting point w = 0:
    1/2 for the logistic loss, and 1 for the squared loss, since targets lie in [-1, 1] (half the
    range of the target). The first gradient is then exact, and the noise is as small as that
    allows. A squared loss whose coefficient z - y is clipped at c has the gradient of the Huber
    loss with threshold c. Without privacy nothing is clipped, unless the request says so.

    The question of one-question has no coefficient; there the bound is one on targets.
    """
    if request.clip is not None:
        return checks.positive("clip", request.clip)
    if math.isinf(request.epsilon):
        return math.inf
    start = loss.start_coefficient
    return 1.0 if start is None else start
