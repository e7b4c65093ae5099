"""Make the pages of the gallery from runs of `taciturn reproduce`.

    python docs/gallery.py FOLDER ...       from folders that `taciturn reproduce --out FOLDER`
    wrote python docs/gallery.py --run FOLDER     run all papers at their default scale first: hours

For every paper it writes docs/gallery/PAPER.md, its figures beside it, and run.json: settings,
seeds and the commit that ran.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import math
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

GALLERY = Path(__file__).resolve().parent / "gallery"
COMMANDS = {
    "huang2019": ("huang2019",),
    "ryu2023": ("ryu2023",),
    "wang2024": ("wang2024",),
    "liu2022": ("liu2022",),
}
# figures that show the published method alone, whose curves do not say so
_LEARNING = [f"{n}, {what}" for n in "56" for what in ("noise", "objective", "test error")]
AS_PUBLISHED = {("ryu2023", f"Figure {name}") for name in ("3", "4", "7", *_LEARNING)}
SIDES = {"published": "As published", "sound": "In sound form"}
COLOURS = (
    "#1f5fa8",
    "#b45309",
    "#15803d",
    "#9333ea",
    "#be123c",
    "#0f766e",
    "#6b7280",
    "#a16207",
    "#db2777",
    "#334155",
    "#4d7c0f",
    "#7dd3fc",
)
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "taciturn",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
LOGARITHMIC = 30.0  # an axis whose values span more than this factor
MARKED = 15  # a curve of at most this many points has a marker at each
LEGEND = 74  # characters of a line that fit below a figure


def main(arguments: Sequence[str]) -> None:
    """Run the papers if they are to be run, then write their pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--run", type=Path, help="run all papers into this folder first")
    parser.add_argument("--commit", help="that made the folders; else the current one")
    given = parser.parse_args(arguments)
    folders = [*given.folders, *(reproduced(given.run) if given.run else ())]
    commit = given.commit or revision()
    for folder in folders:
        write(json.loads((folder / "results.json").read_text(encoding="utf-8")), commit)


def reproduced(where: Path) -> Iterable[Path]:
    """Run every paper at its default scale; yield each folder as it is finished."""
    for paper, words in COMMANDS.items():
        out = where / paper
        call = [Path(sys.executable).parent / "taciturn", "reproduce", *words, "--force"]
        subprocess.run([*call, "--out", out], check=True)
        yield out


def revision() -> str:
    """Return the commit of the working tree, marked if files of the library were changed."""
    commit = _git("rev-parse", "--short=10", "HEAD")
    return commit + ("-changed" if _git("status", "--porcelain", "src", "power", "papers") else "")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], check=True, capture_output=True, text=True, cwd=GALLERY)
    return done.stdout.strip()


def write(results: dict[str, Any], commit: str) -> None:
    """Write the page of one paper, its figures, and what is to be known of the run."""
    paper = results["paper"]
    folder = GALLERY / paper
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for figure in results["figures"]:
        if (paper, figure["id"]) in AS_PUBLISHED:
            figure["panels"] = [as_published(panel) for panel in figure["panels"]]
        for side in SIDES:
            drawing = drawn(figure, side)
            if drawing:
                (folder / file_of(figure, side)).write_text(drawing, encoding="utf-8")
    run = {
        "command": f"taciturn reproduce {' '.join(COMMANDS[paper])}",
        "commit": commit,
        **{
            key: results[key]
            for key in ("version", "seconds", "machine", "sources", "seeds", "settings")
        },
        "orderings": [
            {key: one[key] for key in ("part", "whose", "claim", "verdict", "count")}
            for one in results["orderings"]
        ],
    }
    (folder / "run.json").write_text(json.dumps(run, indent=1, ensure_ascii=False) + "\n")
    (GALLERY / f"{paper}.md").write_text(page(results, run, folder), encoding="utf-8")


def as_published(panel: dict[str, Any]) -> dict[str, Any]:
    """Return a panel whose curves belong to the published side, all of them."""
    return {**panel, "curves": [{**curve, "not_private": True} for curve in panel["curves"]]}


def page(results: dict[str, Any], run: dict[str, Any], folder: Path) -> str:
    """Return the page of one paper as Markdown."""
    parts = [
        f"# {results['title']}",
        outcome(results["orderings"]),
        f"Stored run: `{run['command']}`, commit `{run['commit']}` (sources "
        f"`{run['sources'][:16]}`), {duration(run['seconds'])} on {run['machine']}, seeds "
        f"{listed(run['seeds'])}. Noise comes from these seeds, so the runs are reproductions and "
        f"not private. {_sides(folder)}",
        *(_figure(figure, results["orderings"], folder) for figure in results["figures"]),
        _tables(results["tables"]),
        "## Settings\n\n| setting | value |\n|---|---|\n"
        + "\n".join(f"| {cell(name)} | {cell(value)} |" for name, value in run["settings"].items()),
        "## Notes\n\n" + "\n".join(f"- {note}" for note in results["notes"]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _sides(folder: Path) -> str:
    """Return what stands on which side of the figures of a paper."""
    if not any(
        (folder / f"{file.stem.removesuffix('-sound')}-published.svg").exists()
        for file in folder.glob("*-sound.svg")
    ):
        return (
            "Every figure says whether it is as published, under the budget that this really "
            "spends, or in sound form, which needs no private constant and spends what it says."
        )
    return (
        "On the left of each figure stands what the paper ran, under the budget that it really "
        "spends; on the right what needs no private constant and spends what it says. Both sides "
        "have the same axes; runs without noise are on both."
    )


def file_of(figure: dict[str, Any], side: str) -> str:
    """Return the file name of one side of a figure."""
    return f"{re.sub(r'[^a-z0-9]+', '-', figure['id'].lower())}-{side}.svg"


def outcome(orderings: Sequence[dict[str, Any]]) -> str:
    """Return what came out of the orderings that the paper states."""
    verdicts = [one["verdict"] for one in orderings if one["whose"] == "paper"]
    kept, undecided = verdicts.count("comes out"), verdicts.count("undecided")
    return (
        f"**Of the {len(verdicts)} orderings that the paper states, {kept} "
        f"{'comes' if kept == 1 else 'come'} out here, {undecided} "
        f"{'is' if undecided == 1 else 'are'} undecided and {len(verdicts) - kept - undecided} do "
        "not come out.**"
    )


def _figure(figure: dict[str, Any], orderings: Sequence[dict[str, Any]], folder: Path) -> str:
    pictures = [
        f"![{name}: {figure['title']}]({folder.name}/{file_of(figure, side)})"
        for side, name in SIDES.items()
        if (folder / file_of(figure, side)).exists()
    ]
    return "\n\n".join(
        [
            f"## {figure['title']}",
            f"{figure['question']} *The paper:* {figure['paper_shows']}",
            '<div class="pair" markdown>\n\n' + "\n\n".join(pictures) + "\n\n</div>",
            *came_out(figure["id"], orderings),
        ]
    )


def came_out(part: str, orderings: Sequence[dict[str, Any]]) -> list[str]:
    """Return what came out of the claims about one figure, a line a claim."""
    lines = [
        f"- {'' if one['whose'] == 'paper' else 'Ours: '}{one['claim']}: "
        f"**{one['verdict']}**, {one['count']}."
        for one in orderings
        if one["part"] == part
    ]
    return ["What came out:\n\n" + "\n".join(lines)] if lines else []


def _tables(tables: Sequence[dict[str, Any]]) -> str:
    return "\n\n".join(
        f"## {table['title']}\n\n"
        + "| "
        + " | ".join(map(cell, table["columns"]))
        + " |\n"
        + "|---" * len(table["columns"])
        + "|\n"
        + "\n".join("| " + " | ".join(map(cell, row)) + " |" for row in table["rows"])
        + f"\n\n{table['note']}"
        for table in tables
    )


def cell(value: Any) -> str:
    """Return a value as the cell of a Markdown table; a measured one with its spread."""
    if isinstance(value, dict):
        mean, several = number(value["mean"]), value["repetitions"] > 1
        spread = f" ± {number(value['spread']):.2g}" if several else ""
        value = "no number" if math.isnan(mean) else f"{mean:.4g}{spread}"
    return str(value).replace("|", "\\|").replace("\n", " ")


def listed(numbers: Sequence[int]) -> str:
    """Return whole numbers as text, a run of them by its ends."""
    runs = len(numbers) > 2 and list(numbers) == list(range(numbers[0], numbers[-1] + 1))
    return f"{numbers[0]} to {numbers[-1]}" if runs else ", ".join(map(str, numbers))


def duration(seconds: float) -> str:
    """Return a time as text."""
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} s"


def side_of(curve: dict[str, Any]) -> str | None:
    """Return on which side a curve belongs; None for a reference, which is on both."""
    if re.search(r"publish|printed|paper's", curve["label"]) or curve["not_private"]:
        return "published"
    return None if curve["reference"] or no_noise(curve) else "sound"


def shown_on(curve: dict[str, Any], side: str) -> bool:
    """Whether a curve is drawn on a side."""
    return side_of(curve) in {side, None}


def no_noise(curve: dict[str, Any]) -> bool:
    """Whether a curve has no budget at all."""
    return _single(curve) and math.isinf(number(curve["total_epsilon"]))


def _single(curve: dict[str, Any]) -> bool:
    return not isinstance(curve["total_epsilon"], list)


def drawn(figure: dict[str, Any], side: str) -> str | None:
    """Return one side of a figure as an `<svg>`; None if it has no curve of its own there."""
    sides = {side_of(curve) for panel in figure["panels"] for curve in panel["curves"]}
    if side not in sides:
        return None
    with matplotlib.rc_context(dict(STYLE)):
        curves = [curve for panel in figure["panels"] for curve in panel["curves"]]
        names = dict.fromkeys(legend(curve) for curve in curves)
        # a colour that comes again is dotted
        looks = itertools.cycle(itertools.product("-:", COLOURS))
        styles = dict(zip(names, looks, strict=False))
        labels = {legend(curve) for curve in curves if shown_on(curve, side)}
        lines = sum(label.count("\n") + 1 for label in labels)
        height = 2.9 * len(figure["panels"]) + 0.19 * lines
        canvas = Figure(figsize=(4.6, height), layout="constrained")
        FigureCanvasSVG(canvas)
        canvas.suptitle(SIDES[side], x=0.01, ha="left", fontsize=10, fontweight="bold")
        rows = canvas.subplots(len(figure["panels"]), 1, squeeze=False)[:, 0]
        for axes, panel in zip(rows, figure["panels"], strict=True):
            _draw(axes, panel, side, styles)
        _legend(canvas, rows)
        return _svg(canvas)


def _legend(canvas: Figure, rows: Sequence[Axes]) -> None:
    """Draw one legend below all panels, each label once."""
    pairs = [pair for axes in rows for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
    lines = {label: line for line, label in pairs}
    canvas.legend(lines.values(), lines.keys(), loc="outside lower left", frameon=False, fontsize=8)


def _draw(axes: Axes, panel: dict[str, Any], side: str, styles: dict[str, tuple[str, str]]) -> None:
    """Draw the curves of one side; the axes span those of both."""
    for curve in panel["curves"]:
        if shown_on(curve, side):
            line, colour = styles[legend(curve)]
            line = "--" if side_of(curve) is None else line
            marker = "o" if 2 < len(curve["x"]) <= MARKED else ""
            axes.plot(
                curve["x"],
                values(curve),
                line,
                marker=marker,
                markersize=3,
                color=colour,
                label=legend(curve),
            )
    _scale(axes, panel)
    axes.set_xlabel(panel["x"])
    axes.set_title(panel["y"], loc="left", fontsize=9)
    axes.grid(axis="y", color="#e3e7ec", linewidth=0.8)


def _scale(axes: Axes, panel: dict[str, Any]) -> None:
    across = [x for curve in panel["curves"] for x in curve["x"]]
    up = [y for curve in panel["curves"] for y in values(curve) if math.isfinite(y)]
    few = max(len(curve["x"]) for curve in panel["curves"]) <= MARKED
    if few and wide(across):
        axes.set_xscale("log")
    low, high = min(up), max(up)
    if wide(up):
        axes.set_yscale("log")
        axes.set_ylim(low / 1.3, high * 1.3)
    else:
        axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low) + 1e-12)


def wide(numbers: Sequence[float]) -> bool:
    """Whether numbers are all above 0 and span so much that only logarithms show them."""
    return min(numbers) > 0 and max(numbers) > LOGARITHMIC * min(numbers)


def values(curve: dict[str, Any]) -> list[float]:
    """Return the means of a curve; what is no number is NaN."""
    return [number(mean) for mean in curve["mean"]]


def number(value: float | str) -> float:
    """Return a number of the results, in which infinity and NaN are words."""
    return {"infinity": math.inf, "undefined": math.nan}.get(str(value)) or float(value)


def legend(curve: dict[str, Any]) -> str:
    """Return the label of a curve with its total epsilon, where that is one; in lines that fit."""
    total, label = curve["total_epsilon"], str(curve["label"])
    if side_of(curve) is not None and _single(curve):
        epsilon = f"{number(total):.3g}" if math.isfinite(number(total)) else "infinite"
        label += f", total epsilon {epsilon}"
    return textwrap.fill(label, LEGEND)


def _svg(canvas: Figure) -> str:
    text = io.StringIO()
    canvas.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


if __name__ == "__main__":
    main(sys.argv[1:])
