"""A private choice among trainings: candidates share a budget, and held-out records pick one."""

from taciturn.tuning.planning import Price, TunePlan, plan_choice, price_of
from taciturn.tuning.proposal import MOST_CANDIDATES, Candidate, TuneProposal, propose_choice
from taciturn.tuning.tuning import (
    Tuned,
    choose,
    divided,
    errors_of,
    picked,
    reserved_for,
    tune,
)

__all__ = [
    "MOST_CANDIDATES",
    "Candidate",
    "Price",
    "TunePlan",
    "TuneProposal",
    "Tuned",
    "choose",
    "divided",
    "errors_of",
    "picked",
    "plan_choice",
    "price_of",
    "propose_choice",
    "reserved_for",
    "tune",
]
