"""A user's table: what is public about its columns, and its cells as numbers."""

from taciturn.features import MISSING
from taciturn.tables.bounds import Bounds, Notes, bounds_text, read_bounds
from taciturn.tables.columns import FILL, INDICATOR, Categories, Numeric
from taciturn.tables.draft import Draft, draft_from, range_of
from taciturn.tables.encode import (
    INTERCEPT,
    Encoded,
    encode,
    encoded_name,
    encoded_names,
    encoded_norm,
    entries_of,
    inputs_of,
    offsets_and_scales,
    stated_cells,
)
from taciturn.tables.form import FORM, Form
from taciturn.tables.read import (
    SUFFIXES,
    Report,
    TableFile,
    count_table,
    digest_of,
    is_spreadsheet,
    read_table,
    read_tables,
    refuse_spreadsheet,
)
from taciturn.tables.table import (
    Files,
    Source,
    Table,
    load_table,
    read_files,
    table_conditions,
    table_of,
)

__all__ = [
    "FILL", "FORM", "INDICATOR", "INTERCEPT", "MISSING", "SUFFIXES", "Bounds", "Categories",
    "Draft", "Encoded", "Files", "Form", "Notes", "Numeric", "Report", "Source", "Table",
    "TableFile", "bounds_text", "count_table", "digest_of", "draft_from", "encode", "encoded_name",
    "encoded_names", "encoded_norm", "entries_of", "inputs_of", "is_spreadsheet", "load_table",
    "offsets_and_scales", "range_of", "read_bounds", "read_files", "read_table", "read_tables",
    "refuse_spreadsheet", "stated_cells", "table_conditions", "table_of",
]  # fmt: skip
