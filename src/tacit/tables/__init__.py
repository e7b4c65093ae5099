"""A user's table: what is public about its columns, and its cells as numbers."""

from tacit.tables.bounds import Bounds, Categories, Numeric, bounds_text, read_bounds
from tacit.tables.encode import Encoded, encode, encoded_names, encoded_norm
from tacit.tables.fill import bounds_from, range_of
from tacit.tables.table import Source, Table, load_table, read_agents, read_table, read_tables

__all__ = [
    "Bounds",
    "Categories",
    "Encoded",
    "Numeric",
    "Source",
    "Table",
    "bounds_from",
    "bounds_text",
    "encode",
    "encoded_names",
    "encoded_norm",
    "load_table",
    "range_of",
    "read_agents",
    "read_bounds",
    "read_table",
    "read_tables",
]
