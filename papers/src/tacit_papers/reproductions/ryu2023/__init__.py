"""Ryu & Kim 2023: differentially private distributed convex optimization under constraints."""

from tacit_papers.reproductions.ryu2023.build import build
from tacit_papers.reproductions.ryu2023.settings import DEFAULT, FULL, PARTS, QUICK, Scale

__all__ = ["DEFAULT", "FULL", "PARTS", "QUICK", "Scale", "build"]
