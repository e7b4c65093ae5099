"""Reproductions: the experiments of a paper, run again, with what came out and what did not."""

from tacit.reproductions.figure import Budget, Curve, Figure, Measured, Panel, Table
from tacit.reproductions.ordering import Ordering, Pair, below, rising
from tacit.reproductions.page import page
from tacit.reproductions.register import PAPERS, reproduce
from tacit.reproductions.reproduction import STAMP, Picture, Reproduction
from tacit.reproductions.write import plain, write

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
