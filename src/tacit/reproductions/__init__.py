"""Reproductions: the experiments of a paper, run again, with what came out and what did not."""

from tacit.reproductions.figure import Budget, Curve, Figure, Measured, Panel, Table
from tacit.reproductions.gallery import Block, Gallery, Picture
from tacit.reproductions.ordering import Ordering, Pair, below, rising
from tacit.reproductions.page import page
from tacit.reproductions.register import PAPERS, reproduce
from tacit.reproductions.reproduction import STAMP, Reproduction
from tacit.reproductions.write import plain, write, write_gallery

__all__ = [
    "PAPERS",
    "STAMP",
    "Block",
    "Budget",
    "Curve",
    "Figure",
    "Gallery",
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
    "write_gallery",
]
