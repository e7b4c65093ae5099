"""Wang et al. 2024, DP-RECAL: relay communication without a server, run again."""

from tacit_papers.reproductions.wang2024.build import build
from tacit_papers.reproductions.wang2024.settings import FULL, QUICK, Scale

__all__ = ["FULL", "QUICK", "Scale", "build"]
