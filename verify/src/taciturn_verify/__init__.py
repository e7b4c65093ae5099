"""Checks the privacy certificates of taciturn from their specification alone."""

from taciturn_verify.judging import Verdict, verify

__all__ = ["Verdict", "verify"]
