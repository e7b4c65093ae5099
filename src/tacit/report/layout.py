"""The parts of a page: the document, its sections, tables and lists, and numbers as text."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

_CSS = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #fbfbfa; color: #1d232b;
       font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 860px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 1.65rem; line-height: 1.25; margin: 0 0 .6rem; }
h2 { font-size: 1.12rem; margin: 2.2rem 0 .6rem; }
p { margin: .5rem 0; }
.lead { font-size: 1.06rem; }
.small { color: #59626d; font-size: .88rem; }
.stamp { border: 2px solid #b42318; color: #b42318; background: #fef3f2; font-weight: 600;
         padding: .55rem .9rem; border-radius: 6px; margin: 1rem 0; }
.box { background: #fff; border: 1px solid #d5dbe2; border-left: 5px solid #1f5fa8;
       border-radius: 6px; padding: .3rem 1.2rem .9rem; margin: 1.4rem 0; }
.box.open { border-left-color: #b42318; }
.box h2 { margin-top: .8rem; }
.figures { font-size: 1.3rem; font-weight: 600; margin: .2rem 0 .6rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .32rem .9rem .32rem 0;
         border-bottom: 1px solid #e7ebef; }
tr:last-child > * { border-bottom: 0; }
tbody th { font-weight: 500; color: #59626d; width: 31%; }
thead th { font-weight: 600; border-bottom: 1px solid #aab3bd; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
ul { margin: .4rem 0; padding-left: 1.2rem; }
code { font: .88em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
       overflow-wrap: anywhere; }
svg { display: block; width: 100%; height: auto; margin-top: 1.1rem; }
footer { margin-top: 2.6rem; border-top: 1px solid #d5dbe2; padding-top: .8rem; }
"""


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
        f"<title>{escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n"
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


def percent(fraction: float) -> str:
    """Return a fraction as text in per cent.

    Examples
    --------
    >>> percent(0.15149)
    '15.15 %'
    """
    return f"{100 * fraction:.2f} %"


def spread(values: Any) -> str:
    """Return one number, or the least and the largest.

    Examples
    --------
    >>> spread([3, 3, 4])
    '3 to 4'
    """
    least, most = float(np.min(values)), float(np.max(values))
    return f"{least:.6g}" if least == most else f"{least:.6g} to {most:.6g}"
