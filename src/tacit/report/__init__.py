"""Reports: a finished training as JSON for programs and as one page for people."""

from tacit.report.errors import error_name
from tacit.report.grid_page import grid_page, save_grid
from tacit.report.grid_results import GridStudy, grid_results
from tacit.report.results import results
from tacit.report.save import ORACLE, check_out, save, write_report
from tacit.report.strict import strict

__all__ = [
    "ORACLE",
    "GridStudy",
    "check_out",
    "error_name",
    "grid_page",
    "grid_results",
    "results",
    "save",
    "save_grid",
    "strict",
    "write_report",
]
