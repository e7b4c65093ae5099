"""Published claims, each with the computation that decides it."""

from taciturn_papers.claims.claim import Claim, Finding, Verdict
from taciturn_papers.claims.register import REGISTER, claims_named

__all__ = ["REGISTER", "Claim", "Finding", "Verdict", "claims_named"]
