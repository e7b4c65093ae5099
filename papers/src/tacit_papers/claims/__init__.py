"""Published claims, each with the computation that decides it."""

from tacit_papers.claims.claim import Claim, Finding, Verdict
from tacit_papers.claims.register import REGISTER, claim_named

__all__ = ["REGISTER", "Claim", "Finding", "Verdict", "claim_named"]
