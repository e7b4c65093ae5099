"""Lower bounds on mu and epsilon from outputs alone, by likelihood ratios."""

from __future__ import annotations

import dataclasses
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import betaincinv, ndtri
from typing_extensions import override

from taciturn import checks
from taciturn.algorithms import ADMM
from taciturn.audit.neighbours import replace_record, zero_record
from taciturn.audit.subject import DATA, FAR, ONE_RECORD, BothAnswers, Canary, Fault, canary, plant
from taciturn.engine import compute, records_for_door
from taciturn.engine.planning import Plan, plan
from taciturn.engine.program import Program
from taciturn.errors import InputError, PrivacyError
from taciturn.kernel import privacy, questions
from taciturn.kernel.door import Live, Private, Raw, Supply
from taciturn.kernel.exact import Rival, RivalRecord
from taciturn.kernel.noise import Stream
from taciturn.kernel.records import Shards, pack
from taciturn.problems import NONE, Squared
from taciturn.training import Request, propose
from taciturn.typing import Array, HostArray


@dataclass(frozen=True)
class LowerBound:
    """The result of the attack: at this confidence, the run is not m-GDP for any m below `mu`."""

    mu: float
    confidence: float
    false_positives: int
    false_negatives: int
    runs: int

    @property
    def reachable(self) -> float:
        """The largest bound that this number of runs can prove, with no attacker errors."""
        none = upper_rate(0, self.runs, 1 - self.confidence)
        return float(ndtri(1 - none) - ndtri(none))


def log_likelihood_ratio(
    record: RivalRecord, mechanism: privacy.Mechanism, observer: privacy.Observer
) -> Float[Array, ""]:
    """Return log p(view | first) - log p(view | second) of one run; they differ at agent 0.

    Messages: the sum over all answers of log q(y - m) - log q(y - m'), with m and m' the exact
    answers. With u and v these two residuals over the scale, it is (|v|_2^2 - |u|_2^2) / 2 under
    Gaussian and |v|_1 - |u|_1 under Laplace noise. Sum: the observer sees the sum of the agents'
    answers and subtracts all that it knows, the other agents' exact answers and the noise of the
    last k agents, the colluders; Gaussian noise of variance sum scale_i^2 over the honest agents
    remains. (If summation is credited, messages are affine in answers, so their sum reveals the
    same.) Leaves of the record are `(T, E, A, *shape)`, its scale `(T, E, A)`.
    """
    scale, first, second = record.scale, record.first, record.second
    if isinstance(observer, privacy.Messages):  # 1 where an agent gave no answer
        places = tuple(range(scale.ndim, first.ndim))
        silent = jnp.all((first == 0) & (second == 0), axis=places)
        scale = jnp.where((scale == 0) & silent, jnp.ones_like(scale), scale)
    else:
        honest = max(1, scale.shape[2] - observer.colluders)
        scale = jnp.sqrt(jnp.sum(scale[:, :, :honest] ** 2, axis=2))
        first, second = (jnp.sum(part[:, :, :honest], axis=2) for part in (first, second))
    scale = scale.reshape(scale.shape + (1,) * (first.ndim - scale.ndim))
    u, v = first / scale, second / scale
    if isinstance(mechanism, privacy.Gaussian):
        # a difference of squares as a product: no cancellation when the two are close
        return jnp.sum((v - u) * (v + u)) / 2
    if isinstance(mechanism, privacy.Laplace):
        return jnp.sum(jnp.abs(v) - jnp.abs(u))
    raise PrivacyError(
        "an answer without noise has an infinite or undefined likelihood ratio; "
        "use Gaussian() or Laplace() with a scale above 0"
    )


def ratios(
    plan: Plan,
    pair: Canary,
    fault: Fault | None,
    *,
    runs: int,
    seeds: Sequence[int],
    spread: float = 1.0,
) -> list[HostArray]:
    """Return the log likelihood ratio of each of `runs` runs, on both data sets of the pair.

    `spread`: the standard deviation of an answer's noise, relative to its recorded scale.
    """
    program = plan.program
    sides = [records_for_door(plan, one) for one in (pair.first, pair.second)]
    observer = (
        privacy.Messages() if plan.certificate.observer == "messages" else plan.terms.observer
    )
    found = []
    for behind, seed in zip(sides, seeds, strict=True):
        live = Live(program.oracles, program.mechanism, behind)
        subject = plant(fault, program.algorithm, live)
        # faulty messages are left to the replay: here the algorithm runs as planned
        door = live if isinstance(subject.door, BothAnswers) else subject.door
        rival = Rival(door, subject.oracles, *sides)
        raw = Supply(program.agenda, Stream.seeded(seed), behind.rows).repeated(runs)
        found.append(np.asarray(_many_runs(program, rival, raw, jnp.asarray(spread), observer)))
    return found


@partial(jax.jit, static_argnames=("observer",))
def _many_runs(
    program: Program, door: Rival, raw: Raw, spread: Array, observer: privacy.Observer
) -> Float[Array, "N"]:
    def one(raw: Raw) -> Float[Array, ""]:
        _, trace = compute(program, door, raw, keep=frozenset())
        records = trace.records._replace(scale=trace.records.scale * spread)
        return log_likelihood_ratio(records, program.mechanism, observer)

    return jax.vmap(one)(raw)


def lower_bound(on_first: HostArray, on_second: HostArray, *, confidence: float) -> LowerBound:
    """Return the bound from the ratios of runs on D (`on_first`) and on D' (`on_second`).

    The attacker decides for D if the ratio is above 0, a threshold fixed in advance. Let a and b be
    Clopper-Pearson upper bounds, each at level (1 - confidence) / 2, on the false positive rate (D'
    is chosen on D) and the false negative rate. Then mu-GDP requires Phi^-1(1 - a) - mu <=
    Phi^-1(b), hence the one-sided bound

        mu >= Phi^-1(1 - a) - Phi^-1(b),        never below 0.

    Examples
    --------
    >>> import numpy as np
    >>> round(lower_bound(np.full(1000, 1.0), np.full(1000, -1.0), confidence=0.95).mu, 2)
    5.36
    """
    checks.fraction("confidence", confidence)
    runs = len(on_first)
    if len(on_second) != runs or runs < 1:
        raise InputError("the two sides need the same number of runs, at least one")
    if not (np.all(np.isfinite(on_first)) and np.all(np.isfinite(on_second))):
        raise InputError("a likelihood ratio is not finite; the scale of an audited answer is 0")
    false_positives = int(np.sum(~(on_first > 0)))
    false_negatives = int(np.sum(~(on_second < 0)))
    a, b = (upper_rate(k, runs, 1 - confidence) for k in (false_positives, false_negatives))
    mu = max(0.0, float(ndtri(1 - a) - ndtri(b)))
    return LowerBound(mu, confidence, false_positives, false_negatives, runs)


def seeds_from(seed: int, count: int) -> list[int]:
    """Return `count` distinct seeds derived from one."""
    found: list[int] = np.random.SeedSequence(seed).generate_state(count, np.uint64).tolist()
    return found


def checked_seed(runs: int, seed: int | None) -> int:
    """Return the seed, random if None; `InputError` for more runs than fit in memory."""
    if checks.at_least("runs", runs, 1) > MOST_RUNS:
        raise InputError(f"{runs} runs are more than memory holds; ask for at most {MOST_RUNS:,}")
    return secrets.randbits(31) if seed is None else seed


def upper_rate(events: int, runs: int, alpha: float) -> float:
    """Return the Clopper-Pearson upper bound on a rate, at level alpha / 2."""
    if events >= runs:
        return 1.0
    return float(betaincinv(events + 1, runs - events, 1 - alpha / 2))


CONFIDENCE = 0.95
ROUNDS, RECORDS, FEATURES = 10, 4, 2
RHO, DELTA = 50.0, 0.05  # of noise inside an objective
MOST_RUNS = 1_000_000


@dataclass(frozen=True)
class EpsilonBound:
    """The result of the attack: no (e, delta) guarantee holds with e below `epsilon`.

    `claimed`: the certified epsilon.
    """

    epsilon: float
    claimed: float
    delta: float
    confidence: float
    runs: int

    @property
    def consistent(self) -> bool:
        """Whether the bound does not exceed the certified epsilon."""
        return self.epsilon <= self.claimed

    def to_dict(self) -> dict[str, Any]:
        """Return the bound as JSON-safe values."""
        return {
            "claimed_epsilon": self.claimed,
            "epsilon_lower_bound": self.epsilon,
            "delta": self.delta,
            "confidence": self.confidence,
            "runs": self.runs,
            "verdict": "consistent" if self.consistent else "violated",
        }


class NoBatches(questions.PoissonBatches):
    """Planted fault: claims a sampling rate but answers on all records."""

    @override
    def draw(self, words: questions.Words, rows: int, count: Float[Array, ""]) -> questions.Drawn:
        return questions.Drawn(None, jnp.ones(rows, bool))


def epsilon_lower_bound(
    on_first: HostArray, on_second: HostArray, *, delta: float, threshold: float, confidence: float
) -> float:
    """Return a lower bound on epsilon from scores of runs on D (`on_first`) and D' (`on_second`).

    For every set of outputs S, (epsilon, delta) requires P_D(S) <= exp(epsilon) P_D'(S) + delta,
    and the same with D and D' exchanged. With S = {score > threshold}, and {score < -threshold} for
    the exchange, Clopper-Pearson bounds at level (1 - confidence) / 4 on each of the four
    probabilities give

        epsilon >= max over both of log((P_D(S)_low - delta) / P_D'(S)_high),    never below 0.

    The threshold must be fixed before the runs.
    """
    checks.fraction("confidence", confidence)
    alpha = (1 - confidence) / 2  # upper_rate halves it once more

    def evidence(hits: HostArray, misses: HostArray) -> float:
        low = 1 - upper_rate(int(np.sum(~hits)), len(hits), alpha)
        high = upper_rate(int(np.sum(misses)), len(misses), alpha)
        return math.log((low - delta) / high) if low > delta else 0.0

    first, second = np.asarray(on_first), np.asarray(on_second)
    up = evidence(first > threshold, second > threshold)
    down = evidence(second < -threshold, first < -threshold)
    return max(0.0, up, down)


def audit_sampled(
    adjacency: privacy.Adjacency,
    *,
    rate: float,
    epsilon: float,
    runs: int,
    seed: int | None = None,
    fault: Literal["full-batch"] | None = None,
) -> EpsilonBound:
    """Attack DP-SGD with Poisson batches of that rate, planned to spend `epsilon` at delta 1e-5.

    One agent holds a unit record among rows of zeros. Its gradient under the clipped squared loss
    is +-e_1 at every query; in the other data set it has the opposite sign, or is absent under
    zero_out. So only the first coordinate of an answer is informative, on both data sets a mixture
    over whether the record was sampled, and the score of a run is the exact log likelihood ratio
    over 10 rounds, with the fixed threshold 0.4 epsilon. The attacker sees the answers, not the
    batches. There are `runs` runs on each of the two data sets. The fault "full-batch" claims
    amplification but answers on all records.
    """
    seeds = seeds_from(checked_seed(runs, seed), 2)
    rows = np.zeros((RECORDS, FEATURES))
    rows[0, 0] = 1.0
    targets, parts = np.full(RECORDS, -FAR), [np.arange(RECORDS)]
    first = pack(rows, targets, parts, record_norm=1.0, precision="float64")
    replaced = isinstance(adjacency.relation, privacy.ReplaceOne)
    second = replace_record(first, 0, 0, rows[0], FAR) if replaced else zero_record(first, 0, 0)
    request = Request(
        epsilon=checks.positive("epsilon", epsilon),
        delta=1e-5,
        relation=adjacency.relation.name,
        algorithm="dp-sgd",
        regulariser=NONE,
        clip=1.0,
        rounds=ROUNDS,
        options={"sampling_rate": rate},
        precision="float64",
    )
    plan = propose(DATA.model_copy(update={"columns": FEATURES}), [RECORDS], request).plan()
    jump = 1 / (rate * RECORDS)
    mixture = partial(_log_mixture, scale=plan.ledger.scale[0, 0, 0], rate=rate)
    sides = [
        _answers(plan, data, fault, runs=runs, seed=one)
        for data, one in zip((first, second), seeds, strict=True)
    ]
    scores = [
        np.sum(mixture(side, jump) - mixture(side, -jump if replaced else 0.0), axis=-1)
        for side in sides
    ]
    bound = epsilon_lower_bound(
        *scores, delta=plan.terms.delta, threshold=0.4 * epsilon, confidence=CONFIDENCE
    )
    return EpsilonBound(bound, plan.certificate.epsilon, plan.terms.delta, CONFIDENCE, runs)


def _answers(plan: Plan, shards: Shards, fault: str | None, *, runs: int, seed: int) -> HostArray:
    """Return the first coordinate of every answer, `(runs, T)`."""
    program, oracles = plan.program, plan.program.oracles
    if fault is not None:
        oracles = (questions.Gradient(Squared(), 1.0, NoBatches(oracles[0].sampling.rate)),)
        program = dataclasses.replace(program, oracles=oracles)
    private = records_for_door(plan, shards)
    raw = Supply(program.agenda, Stream.seeded(seed), private.rows).repeated(runs)

    # records are an argument, not a constant: compiled programs may be cached on disk
    def one(raw: Raw, private: Private) -> Float[Array, "T"]:
        door = Live(oracles, program.mechanism, private)
        _, trace = compute(program, door, raw, keep=frozenset({"answers"}))
        answers: Array = trace.records.answer[:, 0, 0, 0]
        return answers

    return np.asarray(jax.jit(jax.vmap(one, in_axes=(0, None)))(raw, private))


def _log_mixture(values: HostArray, mean: float, scale: float, rate: float) -> HostArray:
    """Return log((1 - q) N(0, s^2) + q N(mean, s^2)) at `values`, up to a common constant."""
    absent = -(values**2) / (2 * scale**2)
    present = -((values - mean) ** 2) / (2 * scale**2)
    if rate == 1:
        return np.asarray(present)
    return np.asarray(np.logaddexp(np.log1p(-rate) + absent, np.log(rate) + present))


def audit_perturbed(
    *,
    epsilon: float,
    runs: int,
    seed: int | None = None,
    fault: Literal["halved-noise"] | None = None,
) -> EpsilonBound:
    """Attack ADMM with noise inside the agents' objectives, planned to spend `epsilon`.

    The plan's delta is 1e-5, the relation replace_one; there are `runs` runs on each of the two
    data sets. The attacked claim is the ledger's certificate at delta 0.05, where an attack of some
    thousand runs is strongest. On the audit's pair of data sets (`canary`) the gradient of f_i is
    constant on every trajectory, so the minimiser is the exact step minus b / rho, and the log
    likelihood ratio of the answers, the score of a run, is that of Gaussian noise of standard
    deviation scale sqrt(1 + output_noise^2) / rho. Its threshold, a quarter of the claimed epsilon,
    is fixed before the runs. The certificate also covers a Hessian that depends on the record,
    which is constant here, so the bound is looser than for added noise.
    """
    seed = checked_seed(runs, seed)
    pair = canary(agents=1, records=4, features=3, seed=seed)
    step = questions.ProximalStep(pair.problem, 1.0, RHO, pair.spec.record_norm, 1e-12)
    question = questions.PerturbedStep(step)
    audited = plan(
        pair.spec,
        ADMM(pair.problem, RHO, regulariser_at="agents"),
        (question,),
        privacy.Terms(epsilon, 1e-5, ONE_RECORD, privacy.Messages()),
        rounds=ROUNDS,
        precision="float64",
    )
    spread = float(np.hypot(1, question.output_noise)) / RHO
    seeds = seeds_from(seed, 2)
    scores = ratios(audited, pair, fault, runs=runs, seeds=seeds, spread=spread)
    terms = dataclasses.replace(audited.terms, delta=DELTA)
    claimed = privacy.compose((audited.leg,), terms).certificate().epsilon
    bound = epsilon_lower_bound(*scores, delta=DELTA, threshold=claimed / 4, confidence=CONFIDENCE)
    return EpsilonBound(bound, claimed, DELTA, CONFIDENCE, runs)
