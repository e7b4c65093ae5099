"""The files of a reproduction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.report import json_text, strict, write_folder
from tacit_papers.reproductions.page import page
from tacit_papers.reproductions.reproduction import Reproduction

FILES = ("results.json", "index.html")


def write(made: Reproduction, out: Path, *, force: bool) -> None:
    """Write results.json and index.html into the folder `out`, whole or not at all.

    Raises
    ------
    InputError
        If the folder is not empty and `force` is not given, or cannot be written to.
    """
    texts = {"results.json": json_text(plain(made)), "index.html": page(made)}
    write_folder(texts, out, force=force)


def plain(made: Reproduction) -> dict[str, Any]:
    """Return all numbers of a reproduction as strictly valid JSON values."""
    values: dict[str, Any] = strict(made.to_dict())
    return values
