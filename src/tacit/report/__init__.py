"""Reports: a finished training as JSON for programs and as one page for people."""

from tacit.report.figures import STYLE, inline_svg
from tacit.report.html import (
    certificate_box,
    document,
    list_of,
    section,
    spread,
    stamps,
    table_of,
)
from tacit.report.results import CERTIFIED, error_name, json_text, results, strict
from tacit.report.save import ORACLE, check_out, save, write_folder

__all__ = [
    "CERTIFIED",
    "ORACLE",
    "STYLE",
    "certificate_box",
    "check_out",
    "document",
    "error_name",
    "inline_svg",
    "json_text",
    "list_of",
    "results",
    "save",
    "section",
    "spread",
    "stamps",
    "strict",
    "table_of",
    "write_folder",
]
