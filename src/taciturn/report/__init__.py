"""Reports: a finished training as JSON for programs and as one page for people."""

from taciturn.report.accounts import charged_line, charged_values, promise
from taciturn.report.counting import counting_page, counting_sections, save_noised, survival_figure
from taciturn.report.page import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    STYLE,
    Details,
    Drawing,
    Items,
    Note,
    Page,
    Section,
    Table,
    drawing,
    inline_svg,
    label_axes,
    spread,
)
from taciturn.report.regression import forest, regression_page, regression_sections
from taciturn.report.results import (
    CERTIFIED,
    agent_values,
    certificate_file,
    counted,
    error_name,
    json_text,
    plan_values,
    results,
    strict,
)
from taciturn.report.save import (
    FIRST_CERTIFICATE,
    ORACLE,
    certificate_text,
    check_out,
    numbered,
    save,
    save_released,
    write_folder,
)
from taciturn.report.training import (
    NOT_PROTECTED,
    UNPROTECTED,
    account_section,
    certificate_section,
    run_page,
    score_sections,
    settings_section,
    stamps,
)

__all__ = [
    "BLUE", "CERTIFIED", "FIRST_CERTIFICATE", "GREY", "INK", "NOT_PROTECTED", "ORACLE", "ORANGE",
    "STYLE", "UNPROTECTED", "Details", "Drawing", "Items", "Note", "Page", "Section", "Table",
    "account_section", "agent_values", "certificate_file", "certificate_section",
    "certificate_text", "charged_line", "charged_values", "check_out", "counted", "counting_page",
    "counting_sections", "drawing", "error_name", "forest", "inline_svg", "json_text", "label_axes",
    "numbered", "plan_values", "promise", "regression_page", "regression_sections", "results",
    "run_page", "save", "save_noised", "save_released", "score_sections", "settings_section",
    "spread", "stamps", "strict", "survival_figure", "write_folder",
]  # fmt: skip
