"""Accountants for answers without a mu: privacy-loss distributions; Renyi for fixed sizes.

The arithmetic is that of `dp_accounting`; the worst pair of distributions, the grid and the
allowance for rounding are derived here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from functools import reduce
from typing import Any, TypeAlias

from dp_accounting import dp_event
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as distributions
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant

from taciturn.errors import InputError
from taciturn.kernel.privacy.accounting import (
    Event,
    Exact,
    FixedSize,
    GaussianAnswer,
    LaplaceAnswer,
    PerturbedAnswer,
    Sampled,
)
from taciturn.kernel.privacy.objective import objective_deltas
from taciturn.kernel.privacy.terms import Relation, ReplaceOne, ZeroOut

_Distribution: TypeAlias = Any

_FINEST_DEFAULT = 1e-4
_STEP_PER_SPREAD = 0.01
_POINTS_OF_ONE = 1e5
_POINTS_OF_ALL = 2e6
# above this many answers the convolutions take minutes, and no bound is computed
_MOST_ANSWERS = 10**8
# rounding of the Fourier transforms, per composed answer: the worst error measured against the
# closed form over 100 to 100,000 answers was 2.3e-17 of probability per answer
_ROUNDING_PER_ANSWER = 1e-16
_LARGEST_EXPONENT = 700.0


def numerical_epsilon(counts: Mapping[Event, int], delta: float, relation: Relation) -> float:
    """Return an upper bound on epsilon at `delta` for noised answers given in sequence.

    `counts`: how often each event occurred (none of them `Exact`). Infinite where floating-point
    numbers cannot resolve it: if delta is below 1e-16 per answer, or one answer alone may have a
    privacy loss above 700. Raises `InputError` if no sound dominating pair is implemented for an
    event under this relation.

    **Guarantee.** Each event is replaced by a pair of one-dimensional distributions that dominates
    it (its hockey-stick divergence is at least as large at every epsilon), the pairs compose, and
    discretisation rounds the loss up ("connect the dots", Doroshenko et al. 2022). The rounding
    errors of the convolutions are subtracted from delta first. The pairs, with multiplier s:

    - Gaussian: N(0, s^2) and N(1, s^2). All plain Gaussian answers are first merged exactly.
    - Laplace: Lap(0, s) and Lap(1, s). A vector answer that moves by d, |d|_1 = D, is dominated by
      a scalar that moves by D: for 0 <= e <= D (in units of s) split e as e_j = e |d_j|/D; then
      1 - H_e = int min(p, exp(e) q) >= prod_j int min(p_j, exp(e_j) q_j)
      = prod_j exp((e_j - |d_j|)/2) = exp((e - D)/2), which is 1 - H_e of the scalar;
      beyond e = D both divergences are 0.
    - Noise inside the objective: the curve of `objective.objective_deltas`, as the pair of
      distributions that has it; a small noise on the output is one more Gaussian answer.
    - Poisson sampling, zero_out: (1-q) N(0) + q N(1) against N(0), and the reverse. The divergence
      of a sampled pair is an increasing function of that of the pair, so domination carries over.
    - Poisson sampling of Gaussian answers, replace_one: a record's term has norm at most C, and
      s = sigma/(2C). On the common batch of the other records the pair is
      (1-q) N_0 + q N_u and (1-q) N_0 + q N_v, |u|, |v| <= C. A set S with N_0(S) = Phi(z) has
      N_u(S) <= Phi(z + C/sigma) and N_v(S) >= Phi(z - C/sigma), so its contribution to the
      divergence is at most q Phi(z + C/sigma) - a q Phi(z - C/sigma) - (a-1)(1-q) Phi(z),
      a = exp(epsilon); opposite u and v of norm C attain this for every half-space,
      so that pair is the worst.
    """
    answers = sum(counts.values())
    resolvable = delta - _ROUNDING_PER_ANSWER * answers
    if not resolvable > 0 or answers > _MOST_ANSWERS:
        return math.inf
    merged: Counter[Event] = Counter()
    squares = []  # of all plain Gaussian answers, the output noise of perturbed ones among them
    for event, count in counts.items():
        match event:
            case GaussianAnswer(multiplier):
                squares.append(count / multiplier**2)
            case PerturbedAnswer(multiplier, jacobian, ratio) if ratio > 0:
                merged[PerturbedAnswer(multiplier, jacobian, 0.0)] += count
                squares.append(count / (multiplier / ratio) ** 2)
            case _:
                merged[event] += count
    if squares:
        merged = Counter({GaussianAnswer(1 / math.sqrt(math.fsum(squares))): 1, **merged})
    if max(_largest_loss(event) for event in merged) > _LARGEST_EXPONENT:
        return math.inf
    step = _grid(merged)
    parts = [_distribution(event, count, relation, step) for event, count in merged.items()]
    whole = reduce(lambda one, other: one.compose(other), parts)
    return float(whole.get_epsilon_for_delta(resolvable))


def _grid(counts: Mapping[Event, int]) -> float:
    """Return a step that is small relative to the spread of losses, yet fits in memory.

    It affects the tightness of the bound, not its validity.
    """
    answers = sum(counts.values())
    total = math.sqrt(math.fsum(n * _spread(event) ** 2 for event, n in counts.items()))
    fine = min(_FINEST_DEFAULT, _STEP_PER_SPREAD * total / math.sqrt(answers))
    longest = max(_largest_loss(event) for event in counts)
    return max(fine, longest / _POINTS_OF_ONE, 20 * total / _POINTS_OF_ALL)


def _spread(event: Event) -> float:
    """Return the approximate standard deviation of one event's privacy loss."""
    match event:
        case GaussianAnswer(multiplier) | LaplaceAnswer(multiplier):
            return 1 / multiplier
        case PerturbedAnswer(multiplier, jacobian):
            return jacobian + 1 / multiplier
        case Sampled(inner, rate):
            most = _spread(inner)
            power = most**2 / 2 if isinstance(inner, GaussianAnswer) else most
            # for small losses rate * most; never above the spread without sampling
            return most * min(1.0, rate * math.exp(min(power, _LARGEST_EXPONENT)))
        case Exact() | FixedSize():
            return math.inf


def _largest_loss(event: Event) -> float:
    """Return the approximate largest privacy loss that is not truncated as improbable."""
    match event:
        case GaussianAnswer(multiplier):
            return 0.5 / multiplier**2 + 10 / multiplier
        case LaplaceAnswer(multiplier):
            return 1 / multiplier
        case PerturbedAnswer(multiplier, jacobian):
            return jacobian + _largest_loss(GaussianAnswer(multiplier))
        case Sampled(inner, rate):
            loss = _largest_loss(inner)
            return max(math.log(rate) + loss, math.log1p(rate * math.expm1(min(loss, 1.0))))
        case Exact() | FixedSize():
            return math.inf


def _distribution(event: Event, count: int, relation: Relation, step: float) -> _Distribution:
    options: dict[str, Any] = {"value_discretization_interval": step}
    match event, relation:
        case GaussianAnswer(multiplier), _:
            one = distributions.from_gaussian_mechanism(multiplier, **options)
        case LaplaceAnswer(multiplier), _:
            one = distributions.from_laplace_mechanism(multiplier, **options)
        case PerturbedAnswer(), _:
            one = _perturbed(event, relation, step)
        case Sampled(GaussianAnswer(multiplier), rate), ZeroOut():
            one = distributions.from_gaussian_mechanism(multiplier, sampling_prob=rate, **options)
        case Sampled(LaplaceAnswer(multiplier), rate), ZeroOut():
            one = distributions.from_laplace_mechanism(multiplier, sampling_prob=rate, **options)
        case Sampled(GaussianAnswer(multiplier), rate), ReplaceOne():
            # dp_accounting expects sigma / (norm of one record's term); ours is half of that
            one = distributions.from_gaussian_mechanism(
                2 * multiplier,
                neighboring_relation=NeighboringRelation.REPLACE_ONE,
                sampling_prob=rate,
                **options,
            )
        case Sampled(inner, _), _:
            raise InputError(
                f"Poisson sampling of a {type(inner).__name__} under {relation.name} has no sound "
                "accountant here; use zero_out (Gaussian or Laplace), replace_one (Gaussian), "
                "or rate 1"
            )
        case _:
            raise InputError(f"{type(event).__name__} has no loss distribution here; use account")
    return one if count == 1 else one.self_compose(count)


def _perturbed(event: PerturbedAnswer, relation: Relation, step: float) -> _Distribution:
    """Return the distribution of the curve `objective_deltas`, equal in both directions."""
    reach = math.ceil(_largest_loss(event) / step)
    deltas = objective_deltas(
        step,
        reach,
        shift=1 / event.multiplier,
        jacobian=event.jacobian,
        replaced=not isinstance(relation, ZeroOut),
    )
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, -reach, reach, deltas)
    return distributions.PrivacyLossDistribution(pmf)


def fixed_size_epsilon(counts: Mapping[Event, int], delta: float, relation: Relation) -> float:
    """Return an upper bound on epsilon for answers on fixed-size batches and on all records.

    **Guarantee.** For a Gaussian answer of replace-one multiplier s on a batch of b out of n
    records without replacement, the Renyi divergence of every order is bounded by Wang, Balle and
    Kasiviswanathan (2019), Theorem 9; orders add up over answers, adaptively chosen or not, and
    turn into (epsilon, delta) by Canonne, Kamath and Steinke (2020). All of it is `dp_accounting`'s
    Renyi accountant for replace-one. Removing a record changes the size of the data, on which the
    batch depends, so zero_out has no such bound here. Bounds of this kind are looser than those
    by privacy-loss distributions, which Poisson batches have.
    """
    if not isinstance(relation, ReplaceOne):
        raise InputError(
            f"batches of a fixed size are accounted for under replace_one only, not under "
            f"{relation.name}; use Poisson batches or replace_one"
        )
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    for event, count in counts.items():
        match event:
            case GaussianAnswer(multiplier):
                theirs = dp_event.GaussianDpEvent(multiplier)
            case FixedSize(inner, batch, records):
                gaussian = dp_event.GaussianDpEvent(inner.multiplier)
                theirs = dp_event.SampledWithoutReplacementDpEvent(records, batch, gaussian)
            case _:
                raise InputError(
                    f"{type(event).__name__} cannot be composed with batches of a fixed size here; "
                    "use one kind of sampling in a plan"
                )
        accountant.compose(theirs, count)
    return float(accountant.get_epsilon(delta))
