"""What the site adds to MkDocs: pages that stand elsewhere in the repository, and formulas."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
FROM_ROOT = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
GALLERY, PAPERS = "gallery/", "papers/docs/"


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the papers package, with their figures and tables, as `gallery/`."""
    folder = ROOT / PAPERS
    for file in sorted(folder.rglob("*.*")):
        if file.suffix in {".md", ".svg", ".png", ".csv", ".json"}:
            name = GALLERY + file.relative_to(folder).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(file)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page's text: of the two at the root, that text; links moved; formulas as MathML."""
    name = page.file.src_uri
    if name in FROM_ROOT:
        return moved((ROOT / FROM_ROOT[name]).read_text(encoding="utf-8"))
    if page.meta.get("formulas"):
        markdown = with_formulas(markdown)
    if name.startswith(GALLERY):
        return markdown.replace("](../../docs/", "](../")
    # from docs/ to papers/docs/ is one folder more than to gallery/
    return re.sub(rf"\]\(\.\./((?:\.\./)*){PAPERS}", rf"](\1{GALLERY}", markdown)


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
    return re.sub(r"\]\(docs/", "](", text.replace(f"]({PAPERS}", f"]({GALLERY}"))
