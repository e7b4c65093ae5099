"""The audit of noise inside an objective: a lower bound on epsilon from the law of the outputs."""

from __future__ import annotations

from typing import Literal

import jax
import numpy as np

from tacit import checks
from tacit.algorithms import ADMM
from tacit.audit.canary import Canary, canary, opened
from tacit.audit.faults import HalvedNoise
from tacit.audit.likelihood import log_likelihood_ratio
from tacit.audit.sampled import CONFIDENCE, EpsilonBound, epsilon_lower_bound
from tacit.engine import simulate
from tacit.engine.door import Live, Pair, Rival
from tacit.engine.plan import Plan, plan
from tacit.oracles import PerturbedStep, ProximalStep
from tacit.privacy import Adjacency, Messages, ReplaceOne, Terms, certify
from tacit.problems import Shards
from tacit.typing import Array, HostArray, Key

RHO, ROUNDS, DELTA = 50.0, 10, 0.05


def audit_perturbed(
    *, epsilon: float, runs: int, seed: int, fault: Literal["halved-noise"] | None = None
) -> EpsilonBound:
    """Attack ADMM with noise inside the agents' objectives, planned to spend `epsilon`.

    The plan's delta is 1e-5, the relation replace_one. The claim under attack is what the same
    ledger certifies at delta 0.05, where an attack of some thousand runs is strongest. On the
    audit's pair of data sets (`canary`) the gradient of f_i is constant wherever a run goes, so the
    minimiser is the exact step plus -b / rho, and the log likelihood ratio of the answers is that
    of Gaussian noise of standard deviation scale sqrt(1 + output_noise^2) / rho: the score of a
    run. Its threshold, a quarter of the claimed epsilon, is fixed beforehand. What the certificate
    pays for a Hessian that depends on the record does not show here, so the bound stays further
    below it than for plain noise.

    Parameters
    ----------
    runs
        Runs on each of the two data sets.
    fault
        "halved-noise": half the noise that is recorded.
    """
    checks.at_least("runs", runs, 1)
    pair = canary(agents=1, records=4, features=3, seed=seed)
    audited = _plan(pair, epsilon)
    keys = jax.random.split(jax.random.key(seed), (2, runs))
    scores = [
        _scores(audited, pair, actual, key, fault)
        for actual, key in zip((pair.first, pair.second), keys, strict=True)
    ]
    claimed = certify(
        audited.ledger, delta=DELTA, adjacency=audited.terms.adjacency, observer=Messages()
    ).epsilon
    bound = epsilon_lower_bound(*scores, delta=DELTA, threshold=claimed / 4, confidence=CONFIDENCE)
    return EpsilonBound(bound, claimed, DELTA, CONFIDENCE, runs)


def _plan(pair: Canary, epsilon: float) -> Plan:
    step = ProximalStep(pair.problem, 1.0, RHO, pair.spec.record_norm, 1e-12)
    return plan(
        pair.spec,
        ADMM(pair.problem, RHO, regulariser_at="agents"),
        (PerturbedStep(step),),
        Terms(epsilon, 1e-5, Adjacency(ReplaceOne(), "record"), Messages()),
        rounds=ROUNDS,
        precision="float64",
    )


def _scores(audited: Plan, pair: Canary, actual: Shards, keys: Key, fault: str | None) -> HostArray:
    """Return the log likelihood ratio of one run on `actual` for every key."""
    program, behind = audited.program, Pair(opened(actual), opened(pair.first), opened(pair.second))
    oracle = audited.program.oracles[0]
    assert isinstance(oracle, PerturbedStep)
    spread = np.hypot(1, oracle.output_noise) / RHO

    @jax.jit
    def all_of(keys: Key) -> Array:
        def one(key: Key) -> Array:
            live = Live(program.oracles, program.mechanism, key)
            door = Rival(live if fault is None else HalvedNoise(live), program.oracles)
            _, trace = simulate(program, door, behind, keep=frozenset())
            records = trace.records._replace(scale=trace.records.scale * spread)
            return log_likelihood_ratio(records, program.mechanism, Messages())

        return jax.vmap(one)(keys)

    return np.asarray(all_of(keys))
