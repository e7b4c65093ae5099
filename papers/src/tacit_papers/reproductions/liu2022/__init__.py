"""Liu et al. 2022: stochastic ADMM with Laplacian smoothing, Figures 1 to 4."""

from tacit_papers.reproductions.liu2022.build import build
from tacit_papers.reproductions.liu2022.settings import FULL, QUICK, Setting

__all__ = ["FULL", "QUICK", "Setting", "build"]
