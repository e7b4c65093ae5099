"""Tables by groups, survival curves and tests, from one noised question of counts."""

from taciturn.counting.margins import Reconciled, reconciled, whole_numbers
from taciturn.counting.printed import expected_lines, lines_of, title_of
from taciturn.counting.request import (
    CountedTables,
    CountingRequest,
    cells_of,
    counted_tables,
    counting_request,
    expected_noise,
    noised_counts,
    tables_of,
)
from taciturn.counting.survival import Curve, SurvivalCurves, log_rank, survival_curves
from taciturn.counting.tables import Cell, ChiSquared, GroupedTable, grouped_table, homogeneity

__all__ = [
    "Cell",
    "ChiSquared",
    "CountedTables",
    "CountingRequest",
    "Curve",
    "GroupedTable",
    "Reconciled",
    "SurvivalCurves",
    "cells_of",
    "counted_tables",
    "counting_request", "expected_lines", "expected_noise",
    "grouped_table",
    "homogeneity",
    "lines_of",
    "log_rank",
    "noised_counts",
    "reconciled",
    "survival_curves",
    "tables_of",
    "title_of",
    "whole_numbers",
]  # fmt: skip
