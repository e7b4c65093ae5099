"""Reports: a finished training as JSON for programs and as one page for people."""

from tacit.report.accounts import (
    charged_line,
    charged_section,
    charged_values,
    promise,
)
from tacit.report.certificates import FIRST_CERTIFICATE, numbered
from tacit.report.figures import STYLE, inline_svg
from tacit.report.html import UNPROTECTED, certificate_box, settings_section, stamps
from tacit.report.layout import document, list_of, section, spread, table_of
from tacit.report.private import private_section
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
    "UNPROTECTED",
    "certificate_box",
    "certificate_text",
    "charged_line",
    "charged_section",
    "charged_values",
    "check_out",
    "counted",
    "document",
    "error_name",
    "inline_svg",
    "json_text",
    "list_of",
    "numbered",
    "private_section",
    "promise",
    "results",
    "save",
    "save_released",
    "section",
    "settings_section",
    "spread",
    "stamps",
    "strict",
    "table_of",
    "write_folder",
]
