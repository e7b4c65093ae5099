"""What all drawings share: their look, and how one becomes part of a page."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from html import escape
from types import MappingProxyType
from typing import Any

import matplotlib
from matplotlib.figure import Figure

STYLE: Mapping[Any, Any] = MappingProxyType(
    {
        "svg.hashsalt": "tacit",
        "svg.fonttype": "path",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": "#8a929c",
        "axes.labelcolor": "#3a424c",
        "xtick.color": "#59626d",
        "ytick.color": "#59626d",
    }
)


def inline_svg(figure: Figure, label: str) -> str:
    """Return the drawing as an `<svg>` that refers to nothing outside itself.

    The file header and the metadata, which name outside addresses, are left out.
    """
    buffer = io.StringIO()
    with matplotlib.rc_context(dict(STYLE)):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    svg = buffer.getvalue()
    body = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    return body.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)
