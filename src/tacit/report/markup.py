"""Pieces of a page."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from tacit.report.style import CSS


def document(title: str, sections: Iterable[str]) -> str:
    """Return a whole page of HTML sections, empty ones left out; it loads nothing from elsewhere.

    Parameters
    ----------
    title
        Plain text; all else is HTML already.
    """
    body = "\n".join(part for part in sections if part)
    return (
        '<!doctype html>\n<html lang="en-GB">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def section(title: str, content: str) -> str:
    """Return HTML under a heading."""
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def table_of(rows: Iterable[tuple[str, str]]) -> str:
    """Return (name, value) rows of plain text as a table."""
    body = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows
    )
    return f"<table><tbody>{body}</tbody></table>"


def list_of(entries: Iterable[str]) -> str:
    """Return plain texts as a list."""
    return "<ul>" + "".join(f"<li>{escape(entry)}</li>" for entry in entries) + "</ul>"
