"""Reports: a finished training as JSON for programs and as one page for people."""

from tacit.report.results import results
from tacit.report.save import check_out, save, write_report
from tacit.report.strict import strict

__all__ = ["check_out", "results", "save", "strict", "write_report"]
