"""Tiles side by side, each with how close it is to the true one."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.image import imsave

from taciturn.report import Drawing, Page, Section, json_text, strict, write_folder
from taciturn.typing import HostArray
from taciturn_papers.reproductions.reproduction import STAMP


@dataclass(frozen=True, eq=False)
class Tile:
    """Pixels, grey or red, green, blue, and how close they are to the original; None if not said.

    Attributes
    ----------
    error
        Relative Euclidean error after the best scaling, from 0 (exact) to 1.
    psnr
        Peak signal-to-noise ratio in decibels, after the same scaling.
    """

    pixels: Float[HostArray, "H W"] | Float[HostArray, "H W 3"]
    error: float | None = None
    psnr: float | None = None

    @property
    def caption(self) -> str:
        """The numbers as text."""
        error = "" if self.error is None else f"{self.error:.2g}"
        return error if self.psnr is None else f"{error}, {self.psnr:.0f} dB"


@dataclass(frozen=True, eq=False)
class Block:
    """A grid: (label, pictures) rows under one heading, a picture for every column."""

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Tile, ...]], ...]


@dataclass(frozen=True, eq=False)
class Gallery:
    """Grids of pictures: what they ask, what the paper shows, and notes that a reader needs."""

    id: str
    title: str
    question: str
    paper_shows: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, without the pixels."""
        return {
            "id": self.id,
            "title": self.title,
            "question": self.question,
            "paper_shows": self.paper_shows,
            "blocks": [_values(block) for block in self.blocks],
            "notes": list(self.notes),
        }


def gallery_html(gallery: Gallery) -> str:
    """Return the grids with their notes as HTML, pictures inside it as PNG; nothing is loaded.

    Title and question are left to the page that it becomes part of.
    """
    notes = "".join(f'<p class="small">{escape(note)}</p>' for note in gallery.notes)
    shows = f'<p class="small">The paper: {escape(gallery.paper_shows)}</p>'
    return shows + "".join(_block(block) for block in gallery.blocks) + notes


def write_gallery(made: Gallery, out: Path, *, force: bool) -> None:
    """Write results.json and index.html into the folder `out`, whole or not at all.

    Raises
    ------
    InputError
        If the folder is not empty and `force` is not given, or cannot be written to.
    """
    values = strict({"stamp": STAMP, **made.to_dict()})
    texts = {"results.json": json_text(values), "index.html": _page(made)}
    write_folder(texts, out, force=force)


def _page(made: Gallery) -> str:
    pictures = Section("Pictures", (Drawing(gallery_html(made)),))
    return Page(
        title=made.title, story=(made.question,), stamps=(STAMP,), sections=(pictures,)
    ).html()


def _values(block: Block) -> dict[str, Any]:
    rows = [
        {"label": label, "error": [p.error for p in row], "psnr": [p.psnr for p in row]}
        for label, row in block.rows
    ]
    return {
        "heading": block.heading, "columns": list(block.columns), "rows": rows,
    }  # fmt: skip


def _block(block: Block) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in ("", *block.columns))
    body = "".join(
        f'<tr><th style="width:7em">{escape(label)}</th>{"".join(map(_cell, row))}</tr>'
        for label, row in block.rows
    )
    return (
        f'<h3>{escape(block.heading)}</h3><table class="small"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _cell(picture: Tile) -> str:
    return (
        f'<td><img src="{_data_uri(picture.pixels)}" alt="{escape(picture.caption)}" '
        'style="display:block;width:76px;image-rendering:pixelated;border:1px solid #d5dbe2">'
        f"{escape(picture.caption)}</td>"
    )


def _data_uri(pixels: HostArray) -> str:
    """Return pixels as a PNG inside an address, stretched to their own range from 0 on."""
    buffer = io.BytesIO()
    top = max(float(np.max(pixels)), 1e-300)
    imsave(buffer, np.clip(pixels / top, 0, 1), cmap="gray", vmin=0, vmax=1, format="png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
