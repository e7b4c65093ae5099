"""Checks the privacy certificates and accounts of taciturn from their specifications alone."""

from taciturn_verify.judging import Verdict, verify

__all__ = ["Verdict", "verify"]
