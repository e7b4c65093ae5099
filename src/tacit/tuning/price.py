"""What picking costs, and what it can tell apart, from public facts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit.errors import InputError
from tacit.proposal import Proposal
from tacit.proposal.forecast import known_forecast
from tacit.tuning.planning import TunePlan
from tacit.tuning.proposal import TuneProposal

_SURE = 0.95
_DRAWS = 4000


@dataclass(frozen=True)
class Price:
    """What picking costs.

    Attributes
    ----------
    candidates
        k.
    noise
        How much more noise each candidate has than if it were trained by itself: sqrt(k).
    multipliers
        Noise over sensitivity of each candidate's answers.
    risks
        What theory estimates of each candidate's excess risk; None where it does not.
    alone
        The same for the default, trained by itself on all records with the whole budget.
    chooses, trained
        How many records, or persons, choose, and are trained on.
    gap
        The share of errors by which a candidate must be better than all others to be picked in 19
        of 20 choices; None if no gap is enough. It counts the noise of the choice alone, and not
        which records happen to be held out.
    """

    candidates: int
    noise: float
    multipliers: tuple[float, ...]
    risks: tuple[float | None, ...]
    alone: float | None
    chooses: int
    trained: int
    gap: float | None

    def lines(self, names: tuple[str, ...]) -> list[str]:
        """Return the price as sentences."""
        rows = [
            f"  {name}: noise multiplier {multiplier:.4g}{_risk(risk)}"
            for name, multiplier, risk in zip(names, self.multipliers, self.risks, strict=True)
        ]
        return [
            f"{self.candidates} candidates share the budget, so that each has {self.noise:.3g} "
            "times the noise that it would have by itself:",
            *rows,
            f"  the default by itself, at the whole budget{_risk(self.alone) or ': no estimate'}",
            self._resolution(),
        ]

    def _resolution(self) -> str:
        if self.gap is None:
            return (
                f"The noise of the choice hides which candidate is best: {self.chooses:,} held out "
                "are too few for this budget"
            )
        return (
            f"{self.chooses:,} are held out to choose: a candidate that is better than all others "
            f"by {self.gap:.2%} is picked in 19 of 20 choices; smaller differences are left to "
            "chance"
        )


def _risk(risk: float | None) -> str:
    return "" if risk is None else f", estimated excess risk {risk:.3g}"


def price_of(proposal: TuneProposal, plan: TunePlan, default: Proposal | None) -> Price:
    """Return what picking costs, before a record is read.

    Parameters
    ----------
    default
        What would be trained without a choice; None if nothing is to be compared with.
    """
    proposals = [candidate.proposal for candidate in proposal.candidates]
    pairs = zip(proposals, plan.plans, strict=True)
    forecasts = [known_forecast(one, planned) for one, planned in pairs]
    units = proposal.units_held_out
    return Price(
        candidates=len(proposals),
        noise=math.sqrt(len(proposals)),
        multipliers=tuple(planned.multiplier for planned in plan.plans),
        risks=tuple(None if one is None else one.rule for one in forecasts),
        alone=None if default is None else _risk_of(default),
        chooses=sum(units),
        trained=proposals[0].units,
        gap=gap_of(units, len(proposals), plan.rate),
    )


def _risk_of(default: Proposal) -> float | None:
    try:
        found = known_forecast(default, default.plan())
    except InputError:  # a default that does not suit this budget
        return None
    return None if found is None else found.rule


def gap_of(units: tuple[int, ...], candidates: int, rate: float) -> float | None:
    """Return the least gap at which a candidate wins in 19 of 20 choices, all others being alike.

    Computed from as many made choices with a fixed seed, to a thousandth of a gap of 1.
    """
    low, high = 0.0, 1.0
    if _wins(high, units, candidates, rate) < _SURE:
        return None
    while high - low > 1e-3 * high and high > 1e-5:
        middle = (low + high) / 2
        enough = _wins(middle, units, candidates, rate) >= _SURE
        low, high = (low, middle) if enough else (middle, high)
    return high


def _wins(gap: float, units: tuple[int, ...], candidates: int, rate: float) -> float:
    """Return how often the last candidate wins that is better by the gap at every agent."""
    some = np.array([count for count in units if count], np.float64)
    draw_of_others = np.random.default_rng(1)
    draw = np.random.default_rng(0).random((_DRAWS, len(some)))
    each = np.exp(-rate * gap * some)  # of one of the others, over that of the best
    best = 1 / (1 + (candidates - 1) * each)
    # another one is as likely as the next, wherever the draw falls above `best`
    rest = draw_of_others.integers(0, candidates - 1, draw.shape)
    picks = np.where(draw < best, candidates - 1, rest)
    votes = np.zeros((_DRAWS, candidates))
    np.add.at(votes, (np.arange(_DRAWS)[:, None], picks), some)
    return float(np.mean(np.argmax(votes, axis=1) == candidates - 1))
