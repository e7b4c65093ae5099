"""Reports: a finished training as JSON for programs and as one page for people."""

from tacit.report.accounts import charged_line, charged_values
from tacit.report.certificates import FIRST_CERTIFICATE, numbered
from tacit.report.figures import BLUE, GREY, INK, ORANGE, STYLE, drawing, inline_svg, label_axes
from tacit.report.page import Details, Drawing, Items, Note, Page, Part, Section, Table, spread
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
from tacit.report.sections import (
    UNPROTECTED,
    account_section,
    certificate_section,
    score_sections,
    settings_section,
    stamps,
    unprotected_section,
)

__all__ = [
    "BLUE",
    "CERTIFIED",
    "FIRST_CERTIFICATE",
    "GREY",
    "INK",
    "ORACLE",
    "ORANGE",
    "STYLE",
    "UNPROTECTED",
    "Details",
    "Drawing",
    "Items",
    "Note",
    "Page",
    "Part",
    "Section",
    "Table",
    "account_section",
    "certificate_section",
    "certificate_text",
    "charged_line",
    "charged_values",
    "check_out",
    "counted",
    "drawing",
    "error_name",
    "inline_svg",
    "json_text",
    "label_axes",
    "numbered",
    "results",
    "save",
    "save_released",
    "score_sections",
    "settings_section",
    "spread",
    "stamps",
    "strict",
    "unprotected_section",
    "write_folder",
]
