"""From a request and public facts to a plan."""

from __future__ import annotations

import math

import numpy as np

from tacit import checks
from tacit.algorithms import Choice, Noise, method_named, steady_rho
from tacit.engine.plan import Plan, plan
from tacit.errors import InputError
from tacit.privacy import gaussian_multiplier, mean_gradient_bound
from tacit.problems import Loss, Problem, default_clip
from tacit.proposal.connection import network_for
from tacit.proposal.request import (
    Request,
    fixed_batches,
    local_updates,
    rounds_of,
    sampling_rate,
    terms_for,
)
from tacit.spec import Spec

DEFAULT_RHO = 0.1


def planned(problem: Problem, facts: Spec, request: Request) -> Plan:
    """Return the plan of a request, with settings from public facts alone.

    Raises
    ------
    InputError
        If the request cannot be met; the message names the fix.
    """
    method, rounds = method_named(request.algorithm), rounds_of(request)
    choice = Choice(
        problem=problem,
        clip=coefficient_clip(problem.loss, request),
        record_norm=facts.record_norm,
        rate=sampling_rate(request) or 1.0,
        rho=rho_of(facts, request),
        local_updates=local_updates(request),
        smoothing=request.smoothing,
        records=min(facts.counts) if fixed_batches(request) else None,
    )
    return plan(
        facts,
        method.algorithm(choice),
        (method.oracle(choice), *method.others(choice)),
        terms_for(request),
        rounds=checks.at_least("rounds", rounds, 1),
        precision="float32",
        network=network_for(request),
    )


def rho_of(facts: Spec, request: Request) -> float:
    """Return the ADMM parameter: as asked, else 0.1, or `steady_rho` for exact steps.

    Raises
    ------
    InputError
        If one is asked for and the method has none, or it is not a positive number.
    """
    method, rounds = method_named(request.algorithm), rounds_of(request)
    if request.rho is not None:
        if not method.admm:
            raise InputError(f"{request.algorithm} has no parameter rho; leave --rho out")
        return checks.positive("rho", request.rho)
    if not method.exact:
        return DEFAULT_RHO
    terms = terms_for(request)
    multiplier = 0.0
    if math.isfinite(terms.epsilon):
        multiplier = gaussian_multiplier(terms.epsilon, terms.delta, rounds)
    bound = mean_gradient_bound(facts, terms.adjacency, norm="l2", rounds=1, questions=1)
    moves = np.where(np.isfinite(bound.value[:, 0, 0]), bound.value[:, 0, 0], 0.0)
    return float(steady_rho(facts, rounds, Noise(multiplier, multiplier * moves)))


def coefficient_clip(loss: Loss, request: Request) -> float:
    """Return the public bound on the coefficient of a record.

    By default it is the largest norm that the coefficient can have at the starting point w = 0:
    1/2 for the logistic loss, and 1 for the squared loss, since targets lie in [-1, 1] (half the
    range of the target). The first gradient is then exact, and the noise is as small as that
    allows. A squared loss whose coefficient z - y is clipped at c has the gradient of the Huber
    loss with threshold c. Without privacy nothing is clipped, unless the request says so; nor are
    the coefficients of several margins where minimisers are asked for.

    The question of one-question has no coefficient; there the bound is one on targets.
    """
    if request.clip is not None:
        return checks.positive("clip", request.clip)
    if math.isinf(request.epsilon):
        return math.inf
    if method_named(request.algorithm).exact and loss.outputs is not None:
        return math.inf
    return default_clip(loss)
