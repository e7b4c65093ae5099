"""What the site adds to MkDocs: pages that stand at the root of the repository, and formulas."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

ROOT = Path(__file__).resolve().parent.parent
FROM_ROOT = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page's text: of the two at the root, with its links moved; formulas as MathML."""
    source = FROM_ROOT.get(page.file.src_uri)
    if page.meta.get("formulas"):
        return with_formulas(markdown)
    return moved((ROOT / source).read_text(encoding="utf-8")) if source else markdown


def with_formulas(text: str) -> str:
    """Return a text whose LaTeX, between one or two dollar signs, is MathML."""

    def shown(match: re.Match[str]) -> str:
        block, inline = match.groups()
        return str(convert(block or inline, display="block" if block else "inline"))

    return re.sub(r"\$\$(.+?)\$\$|\$(.+?)\$", shown, text, flags=re.DOTALL)


def moved(text: str) -> str:
    """Return a text whose links lead from `docs/` instead of from the root."""
    for page, source in FROM_ROOT.items():
        text = text.replace(f"]({source}", f"]({page}")
    return re.sub(r"\]\(docs/", "](", text)
