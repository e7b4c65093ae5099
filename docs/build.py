"""Render the documentation and an API reference as one self-contained page."""

from __future__ import annotations

import html
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import markdown

import tacit

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "README.md",
    "docs/notation.md",
    "docs/architecture.md",
    "docs/threat-model.md",
    "docs/measurements.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
)
STYLE = """
body { display: flex; margin: 0; color: #1b1f24; font: 16px/1.55 system-ui, sans-serif; }
nav { position: sticky; top: 0; box-sizing: border-box; flex: none; width: 18rem; height: 100vh;
  overflow: auto; padding: 1rem; background: #f6f8fa; font-size: 0.85rem; }
nav ul { margin: 0; padding-left: 1rem; list-style: none; }
main { box-sizing: border-box; min-width: 0; max-width: 62rem; padding: 1rem 2rem 6rem; }
article { margin-bottom: 4rem; border-bottom: 1px solid #d0d7de; }
pre, code { background: #f6f8fa; font: 0.85rem/1.4 ui-monospace, monospace; }
pre { overflow: auto; padding: 0.75rem; } code { overflow-wrap: anywhere; }
table { display: block; overflow: auto; border-collapse: collapse; font-size: 0.9rem; }
th, td { padding: 0.3rem 0.6rem; border: 1px solid #d0d7de; text-align: left; vertical-align: top; }
blockquote { margin-left: 0; padding-left: 1rem; border-left: 3px solid #d0d7de; }
a { color: #0550ae; }
@media (max-width: 60rem) { body { display: block; } nav { position: static; width: auto;
  height: auto; } }
"""


def page() -> str:
    """Return the whole page as HTML; it loads nothing from elsewhere."""
    articles = [_article(name) for name in PAGES]
    contents = "\n".join(contents for contents, _ in articles)
    bodies = "\n".join(body for _, body in articles)
    rooms = [_room(module, names) for module, names in public_names()]
    links = "".join(f"<li>{_link(module.__name__)}</li>" for module, _ in public_names())
    api = f'<article><h1 id="api">API reference</h1>{"".join(rooms)}</article>'
    return (
        '<!doctype html>\n<html lang="en-GB"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>tacit {tacit.__version__}</title><style>{STYLE}</style></head><body>"
        f'<nav>{contents}<ul><li><a href="#api">API reference</a><ul>{links}</ul></li></ul></nav>'
        f"<main>{bodies}{api}</main></body></html>\n"
    )


def public_names() -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield every public module with its public names: of `__all__`, or defined in the file."""
    top = list(pkgutil.iter_modules(tacit.__path__, "tacit."))
    for info in top:
        module = importlib.import_module(info.name)
        names = tuple(vars(module).get("__all__", ())) if info.ispkg else _defined(module)
        if names:
            yield module, names


def _defined(module: Any) -> tuple[str, ...]:
    return tuple(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    )


def _article(name: str) -> tuple[str, str]:
    """Return the table of contents and the body of one document."""
    slug = _slug(name)
    options = {"toc": {"slugify": partial(_anchor, slug), "toc_depth": "1-2"}}
    reader = markdown.Markdown(
        extensions=["tables", "fenced_code", "toc"], extension_configs=options
    )
    body = reader.convert((ROOT / name).read_text(encoding="utf-8"))
    body = re.sub(r'href="([^"]+)"', lambda match: _target(name, match[1]), body)
    contents: str = vars(reader)["toc"]
    return contents, f'<article id="{slug}">{body}</article>'


def _slug(name: str) -> str:
    return Path(name).stem.lower()


def _anchor(slug: str, heading: str, separator: str) -> str:
    return f"{slug}-" + re.sub(r"[^a-z0-9]+", separator, heading.lower()).strip(separator)


def _target(name: str, link: str) -> str:
    """Return the `href` of a link in one document: inside the page where it leads to another."""
    path, _, part = link.partition("#")
    if "://" in link:
        return f'href="{link}"'
    known = {(ROOT / page).resolve(): _slug(page) for page in PAGES}
    file = ((ROOT / name).parent / path).resolve() if path else ROOT / name
    if file not in known:
        return f'href="../../{file.relative_to(ROOT)}"'
    return f'href="#{known[file]}-{part}"' if part else f'href="#{known[file]}"'


def _link(name: str) -> str:
    return f'<a href="#{name}">{name}</a>'


def _room(module: Any, names: tuple[str, ...]) -> str:
    title = f'<h2 id="{module.__name__}">{module.__name__}</h2>'
    head = f"{title}<pre>{html.escape(inspect.getdoc(module) or '')}</pre>"
    return head + "".join(_entry(module.__name__, name, getattr(module, name)) for name in names)


def _entry(room: str, name: str, value: Any) -> str:
    """Return one public name: its signature and its docstring."""
    described = inspect.isclass(value) or inspect.isroutine(value)
    text = (inspect.getdoc(value) if described else None) or repr(value)
    signature = str(inspect.signature(value)) if inspect.isfunction(value) else ""
    title = f"<code>{html.escape(name + signature)}</code>"
    return f'<h3 id="{room}.{name}">{title}</h3><pre>{html.escape(text)}</pre>'


def main() -> None:
    """Write docs/site/index.html."""
    out = ROOT / "docs" / "site" / "index.html"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(), encoding="utf-8")
    print(f"wrote {out.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
