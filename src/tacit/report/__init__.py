"""Reports: a finished training as JSON for programs and as one page for people."""

from tacit.report.errors import error_name
from tacit.report.results import results
from tacit.report.save import ORACLE, check_out, save, write_report
from tacit.report.strict import strict

__all__ = ["ORACLE", "check_out", "error_name", "results", "save", "strict", "write_report"]
