"""Write the pictures of Figures 4, 7 and 8 of Wang et al. 2024, small, beside its page.

    python papers/docs/attacked.py [DATA ...]    mnist, fashion_mnist and cifar10 if none is named

For each data set, papers/docs/wang2024/attacked-DATA.png: a row for each attack, a column for each
run, of one agent that holds one picture; above them the original. The searches are short.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.image import imsave

from taciturn.datasets import load
from taciturn.typing import HostArray
from taciturn_papers.reproductions.gallery import Block, Tile
from taciturn_papers.reproductions.wang2024.pictures import images

FOLDER = Path(__file__).resolve().parent / "wang2024"
GAP = 2  # pixels between pictures


def main(names: Sequence[str]) -> None:
    """Write one file for each data set, and print the errors that belong to it."""
    for name in names or ("mnist", "fashion_mnist", "cifar10"):
        made = images(load(name, interval="unit"), seed=0, quick=True)
        rows = [block for block in made.blocks if "one picture" in block.heading]
        imsave(FOLDER / f"attacked-{name.replace('_', '-')}.png", sheet(rows))
        for block in rows:
            pairs = zip(block.columns, block.rows[0][1], strict=True)
            print(name, block.heading, [(column, tile.caption) for column, tile in pairs])


def sheet(rows: Sequence[Block]) -> HostArray:
    """Return the pictures of the first agent as one, attacks below one another, in bytes."""
    strips = [np.hstack([framed(tile) for tile in block.rows[0][1]]) for block in rows]
    return np.vstack(strips)


def framed(tile: Tile) -> HostArray:
    """Return a picture in three colours, stretched to its own range from 0 on, on white."""
    pixels = np.clip(tile.pixels / max(float(np.max(tile.pixels)), 1e-300), 0, 1)
    colours = pixels if pixels.ndim == 3 else np.repeat(pixels[:, :, None], 3, axis=2)
    wide = ((0, GAP), (0, GAP), (0, 0))
    framed: HostArray = np.pad(np.round(255 * colours).astype(np.uint8), wide, constant_values=255)
    return framed


if __name__ == "__main__":
    main(sys.argv[1:])
