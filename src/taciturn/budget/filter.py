"""Whether a charge fits an account, and what would."""

from __future__ import annotations

import math

from taciturn.budget.balance import Balance
from taciturn.budget.charge import Charge, Cost, Purpose
from taciturn.budget.sums import largest_cost, share_of
from taciturn.errors import AccountError
from taciturn.privacy import epsilon_of

_NOTHING_FITS = "no run like it fits; taciturn budget raise gives the account a larger guarantee"


def check_fits(state: Balance, charge: Charge, purpose: Purpose) -> None:
    """Raise `AccountError` unless every cap holds with a charge added.

    The message says what is left and what would fit: the largest epsilon of a run whose answers are
    all Gaussian, else the most rounds at its noise.

    Raises `InputError` if the charge does not suit the terms of the account.

    **Guarantee.** Of all charges together, the new one included, each cap is at least the sum: the
    condition under which the filters of `taciturn.budget.caps` hold. A lattice that is coarser than
    these assume, or none, is refused.
    """
    caps = state.caps
    if not charge.least_scale >= caps.least_scale:
        raise AccountError(
            f"the noise of this run does not stand on a lattice of {caps.least_scale:g} "
            "steps to its scale, which the account assumes; use Gaussian or Laplace noise that is "
            "added to the answer"
        )
    cost = largest_cost(state.terms, caps.order, charge)
    if math.isfinite(cost.squares + cost.divergence):
        total = state.sums.plus(share_of(state.terms, caps.order, charge)).total
        within = total.squares <= caps.squares and total.divergence <= caps.divergence
        if within and total.values <= caps.values:
            return
    raise AccountError(_refusal(state, cost, charge.values, purpose))


def _refusal(state: Balance, cost: Cost, values: int, purpose: Purpose) -> str:
    left = state.left
    parts = [
        f"account {state.name!r} has no room for this run, so nothing was charged and no record "
        f"read: what is left is {state.left_text()}"
    ]
    if cost.divergence > 0 and state.caps.divergence == 0:
        return (
            f"{parts[0]}; the account was opened without a share for answers that are not Gaussian "
            "on all records: use those, or taciturn budget raise with --curves"
        )
    if left.values >= values:
        return "; ".join([*parts, _would_fit(state, cost, purpose)])
    parts.append(
        f"it releases {values:,} numbers; of the numbers that may be released "
        f"{left.values:,} are left"
    )
    rounds = left.values * purpose.rounds // values
    if rounds < 1:
        return "; ".join([*parts, _NOTHING_FITS])
    # how much noise they have is another matter
    parts.append(f"at most {rounds} of its {purpose.rounds} rounds release no more")
    if cost.squares <= left.squares and cost.divergence <= left.divergence:
        return "; ".join(parts)
    return "; ".join([*parts, f"besides, {_would_fit(state, cost, purpose)}"])


def _would_fit(state: Balance, cost: Cost, purpose: Purpose) -> str:
    left = state.left
    shares = [math.inf]
    shares += [left.squares / cost.squares] if cost.squares > 0 else []
    shares += [left.divergence / cost.divergence] if cost.divergence > 0 else []
    share = min(shares)
    if cost.divergence == 0 and purpose.mu is not None and math.isfinite(purpose.mu):
        # what the lattice adds to a plan of that epsilon is below a millionth
        mu = purpose.mu * math.sqrt(share) * (1 - 1e-6)
        epsilon = _down(epsilon_of(purpose.delta, mu)) if share < 1 else purpose.epsilon
        if epsilon > 0:
            return f"the largest epsilon that would fit is {epsilon:g} at delta {purpose.delta:g}"
    elif math.floor(share * purpose.rounds) >= 1:
        rounds = math.floor(share * purpose.rounds * (1 - 1e-9))
        return f"at this noise at most {rounds} of its {purpose.rounds} rounds would fit"
    return _NOTHING_FITS


def _down(epsilon: float) -> float:
    """Return an epsilon with four significant digits, never above it."""
    if epsilon <= 0:
        return 0.0
    unit: float = 10.0 ** (math.floor(math.log10(epsilon)) - 3)
    return float(f"{math.floor(epsilon / unit * (1 - 1e-9)) * unit:.4g}")
