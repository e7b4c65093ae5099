"""Reports: a finished training as JSON for programs and as one page for people."""

from tacit.report.figures import STYLE, inline_svg
from tacit.report.folder import check_out, write_folder
from tacit.report.markup import document, list_of, section, table_of
from tacit.report.results import error_name, results
from tacit.report.save import ORACLE, save
from tacit.report.strict import json_text, strict

__all__ = [
    "ORACLE",
    "STYLE",
    "check_out",
    "document",
    "error_name",
    "inline_svg",
    "json_text",
    "list_of",
    "results",
    "save",
    "section",
    "strict",
    "table_of",
    "write_folder",
]
