"""Reproductions: the experiments of a paper, run again, with what came out and what did not."""

from tacit_papers.reproductions.figure import Budget, Curve, Figure, Measured, Panel, Table
from tacit_papers.reproductions.ordering import Ordering, Pair, below, rising
from tacit_papers.reproductions.page import page
from tacit_papers.reproductions.register import PAPERS, reproduce
from tacit_papers.reproductions.reproduction import STAMP, Picture, Reproduction
from tacit_papers.reproductions.write import plain, write

__all__ = [
    "PAPERS",
    "STAMP",
    "Budget",
    "Curve",
    "Figure",
    "Measured",
    "Ordering",
    "Pair",
    "Panel",
    "Picture",
    "Reproduction",
    "Table",
    "below",
    "page",
    "plain",
    "reproduce",
    "rising",
    "write",
]
