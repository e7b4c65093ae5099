"""Published claims, each with the computation that decides it."""

from tacit.claims.claim import Claim, Finding, Verdict
from tacit.claims.register import REGISTER, claim_named

__all__ = ["REGISTER", "Claim", "Finding", "Verdict", "claim_named"]
