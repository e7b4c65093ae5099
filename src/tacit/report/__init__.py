"""Reports: a finished training as JSON for programs and as one page for people."""

from tacit.report.accounts import charged_line, charged_values
from tacit.report.certificates import FIRST_CERTIFICATE, numbered
from tacit.report.figures import STYLE, drawing, inline_svg
from tacit.report.page import Drawing, Page, spread
from tacit.report.results import (
    CERTIFIED,
    certificate_text,
    counted,
    error_name,
    json_text,
    results,
    strict,
)
from tacit.report.save import ORACLE, check_out, save, save_released, write_folder

__all__ = [
    "CERTIFIED",
    "FIRST_CERTIFICATE",
    "ORACLE",
    "STYLE",
    "Drawing",
    "Page",
    "certificate_text",
    "charged_line",
    "charged_values",
    "check_out",
    "counted",
    "drawing",
    "error_name",
    "inline_svg",
    "json_text",
    "numbered",
    "results",
    "save",
    "save_released",
    "spread",
    "strict",
    "write_folder",
]
