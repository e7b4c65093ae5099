"""Huang et al. 2019, DP-ADMM: ADMM-based distributed learning with differential privacy."""

from tacit_papers.reproductions.huang2019.build import build
from tacit_papers.reproductions.huang2019.settings import FULL, QUICK, Scale

__all__ = ["FULL", "QUICK", "Scale", "build"]
