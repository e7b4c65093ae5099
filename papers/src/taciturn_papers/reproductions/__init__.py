"""Reproductions: the experiments of a paper, repeated, with what was reproduced and what not."""

from taciturn_papers.reproductions.data import dataset_named
from taciturn_papers.reproductions.figure import Budget, Curve, Figure, Measured, Panel, Table
from taciturn_papers.reproductions.ordering import RULE, Ordering, Pair, below, rising, tally
from taciturn_papers.reproductions.page import page, write
from taciturn_papers.reproductions.register import PAPERS, reproduce, scale_of
from taciturn_papers.reproductions.reproduction import STAMP, Picture, Reproduction, plain
from taciturn_papers.reproductions.scale import changed, settings_of

__all__ = [
    "PAPERS",
    "RULE",
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
    "changed",
    "dataset_named",
    "page",
    "plain",
    "reproduce",
    "rising",
    "scale_of",
    "settings_of",
    "tally",
    "write",
]
