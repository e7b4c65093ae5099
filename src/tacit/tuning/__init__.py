"""A private choice among trainings: candidates share a budget, and held-out records pick one."""

from tacit.tuning.choosing import choose, errors_of, picked
from tacit.tuning.planning import Price, TunePlan, plan_choice, price_of
from tacit.tuning.proposal import MOST_CANDIDATES, Candidate, TuneProposal, propose_choice
from tacit.tuning.tuning import Tuned, divided, reserved_for, tune

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
