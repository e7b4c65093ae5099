"""What the site adds to MkDocs: pages that stand at the root of the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FROM_ROOT = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page's text; that of the two pages kept at the root, with its links moved."""
    source = FROM_ROOT.get(page.file.src_uri)
    return moved((ROOT / source).read_text(encoding="utf-8")) if source else markdown


def moved(text: str) -> str:
    """Return a text whose links lead from `docs/` instead of from the root."""
    for page, source in FROM_ROOT.items():
        text = text.replace(f"]({source}", f"]({page}")
    return re.sub(r"\]\(docs/", "](", text)
