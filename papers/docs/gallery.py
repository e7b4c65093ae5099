"""Write the figures, tables and verdicts of the four papers from runs of `taciturn reproduce`.

    python papers/docs/gallery.py FOLDER ...     from folders that `taciturn reproduce` wrote
    python papers/docs/gallery.py --run FOLDER   run all papers at their default scale first: hours
    python papers/docs/gallery.py                the pages again, from the stored runs

For every paper it writes into papers/docs/PAPER its figures, each table as CSV, and run.json:
settings, seeds, commit, machine, notes, and verdicts with the numbers behind them. In
papers/docs/PAPER.md, which is written by hand, it replaces the part between the two marks. The
inventories of the papers, papers/docs/inventory/PAPER.csv, become papers/docs/everything.md. A run
that is interrupted goes on where it was if no source file has changed.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import math
import re
import string
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

from taciturn_papers.reproductions import tally

GALLERY = Path(__file__).resolve().parent
BEGIN, END = "<!-- written by gallery.py -->", "<!-- end of that part -->"
COMMANDS = {
    "huang2019": ("huang2019",),
    "ryu2023": ("ryu2023",),
    "wang2024": ("wang2024",),
    "liu2022": ("liu2022",),
}
# figures that show the published method alone, whose curves do not say so
_LEARNING = [f"{n}, {what}" for n in "56" for what in ("noise", "objective", "test error")]
AS_PUBLISHED = {("ryu2023", f"Figure {name}") for name in ("3", "4", "7", *_LEARNING)}
SHORT = {
    "comes out": "yes",
    "comes out under some readings": "under some readings",
    "comes out in part": "in part",
    "undecided": "undecided",
    "does not come out": "no",
}
KEPT = ("part", "whose", "claim", "verdict", "count", "comparisons")
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
EVERYTHING = """# Everything in the four papers

Every algorithm, theorem, figure, table, data set and setting: where it is, how it is run, what came
out. The [gallery](index.md) shows figures and verdicts."""


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
    for paper in COMMANDS:
        rewrite(paper)
    (GALLERY / "everything.md").write_text(everything(), encoding="utf-8")


def reproduced(where: Path) -> Iterable[Path]:
    """Say how long each paper took before, run it at its default scale, yield its folder."""
    stored = {paper: stored_run(paper) for paper in COMMANDS}
    for paper, run in stored.items():
        print(f"{paper}: took {duration(run['seconds'])} on {run['machine']}", flush=True)
    for paper, words in COMMANDS.items():
        out = where / paper
        call = [Path(sys.executable).parent / "taciturn", "reproduce", *words, "--force"]
        subprocess.run([*call, "--resume", where / "portions", "--out", out], check=True)
        yield out


def stored_run(paper: str) -> dict[str, Any]:
    """Return what is stored of the last run of a paper."""
    run: dict[str, Any] = json.loads((GALLERY / paper / "run.json").read_text(encoding="utf-8"))
    return run


def rewrite(paper: str) -> None:
    """Write the results of the stored run into the page of a paper."""
    page = GALLERY / f"{paper}.md"
    text = with_results(page.read_text(encoding="utf-8"), paper, stored_run(paper))
    page.write_text(text, encoding="utf-8")


def inventory(paper: str) -> list[dict[str, str]]:
    """Return the rows of the inventory of a paper: kind, item, where, command and outcome."""
    file = GALLERY / "inventory" / f"{paper}.csv"
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def everything() -> str:
    """Return the page with every algorithm, theorem, figure, table, data set and setting."""
    parts = [EVERYTHING]
    for paper in COMMANDS:
        rows = inventory(paper)
        if rows:
            heads = "| what | where | command | outcome |\n|---|---|---|---|"
            lines = [
                f"| {cell(row['kind'])}: {cell(row['item'])} | {cell(row['where'])} | "
                f"{cell(row['command'])} | {cell(row['outcome'])} |"
                for row in rows
            ]
            title = (GALLERY / f"{paper}.md").read_text(encoding="utf-8").partition("\n")[0]
            parts.append("\n".join([f"#{title}\n", heads, *lines]))
    return "\n\n".join(parts) + "\n"


def revision() -> str:
    """Return the commit of the working tree, marked if files of the library were changed."""
    commit = _git("rev-parse", "--short=10", "HEAD")
    return commit + (
        "-changed" if _git("status", "--porcelain", "src", "power/src", "papers/src") else ""
    )


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], check=True, capture_output=True, text=True, cwd=GALLERY)
    return done.stdout.strip()


def write(results: dict[str, Any], commit: str) -> None:
    """Write the figures, tables and verdicts of one paper, and what is to be known of the run."""
    paper = results["paper"]
    folder = GALLERY / paper
    folder.mkdir(exist_ok=True)
    for old in (*folder.glob("*.svg"), *folder.glob("*.csv")):
        old.unlink()
    for figure in results["figures"]:
        if (paper, figure["id"]) in AS_PUBLISHED:
            figure["panels"] = [as_published(panel) for panel in figure["panels"]]
        for side in SIDES:
            drawing = drawn(figure, side)
            if drawing:
                (folder / file_of(figure, side)).write_text(drawing, encoding="utf-8")
    for table in results["tables"]:
        write_table(folder / table_file(table), table)
    run = {
        "command": f"taciturn reproduce {' '.join(COMMANDS[paper])}",
        "commit": commit,
        **{
            key: results[key]
            for key in ("version", "seconds", "machine", "sources", "seeds", "settings", "notes")
        },
        "tables": [
            {"file": table_file(table), "title": table["title"], "note": table["note"]}
            for table in results["tables"]
        ],
        "orderings": [{key: one[key] for key in KEPT} for one in results["orderings"]],
    }
    (folder / "run.json").write_text(json.dumps(run, indent=1, ensure_ascii=False) + "\n")


def with_results(page: str, paper: str, run: dict[str, Any]) -> str:
    """Return a page whose part between the marks states the results of a run."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{results_of(paper, run)}\n{END}{rest.split(END)[1]}"


def results_of(paper: str, run: dict[str, Any]) -> str:
    """Return the verdicts of a run, where it was made, and where its tables lie, as Markdown."""
    seen = f", sources `{run['sources'][:16]}`" if "sources" in run else ""
    provenance = (
        f"Stored run: `{run['command']}`, commit `{run['commit']}`{seen}, "
        f"{duration(run['seconds'])} on {run['machine']}, seeds {listed(run['seeds'])}. "
        f"Settings, notes and our comparisons: [run.json]({paper}/run.json)."
    )
    note = run.get("note")
    more = [f"{note[0].upper()}{note[1:]}."] if note else []
    tables = [f"[{name_of(each)}]({paper}/{each['file']})" for each in run["tables"]]
    provenance = " ".join([provenance, *more, f"Tables: {', '.join(tables)}."])
    provenance = textwrap.fill(provenance, 100, break_on_hyphens=False)
    return "\n\n".join([outcome(run["orderings"]), verdicts(run["orderings"]), provenance])


def verdicts(orderings: Sequence[dict[str, Any]]) -> str:
    """Return a table of the paper's orderings; those of several figures share a row."""
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in orderings:
        if one["whose"] == "paper":
            rows.setdefault((one["claim"], one["verdict"]), []).append(one)
    letters = lettered([one for each in rows.values() for one in each])
    lines = [
        f"| {cell(claim)} | {SHORT[verdict]} | {where(each, letters)} |"
        for (claim, verdict), each in rows.items()
    ]
    head = ["| claim | comes out | where, at how many places |", "|---|---|---|"]
    legend = "; ".join(f"({letter}) {reading}" for reading, letter in letters.items())
    return "\n".join([*head, *lines, *(["", f"Readings: {legend}."] if letters else [])])


def lettered(orderings: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return a letter for each reading, in the order of their first claims."""
    parts = [part.rpartition(": ")[0] for one in orderings for part in one["count"].split("; ")]
    return dict(zip(filter(None, dict.fromkeys(parts)), string.ascii_lowercase, strict=False))


def where(orderings: Sequence[dict[str, Any]], letters: dict[str, str]) -> str:
    """Return the figures of orderings and at how many places each was seen."""
    names = [one["part"].split(" ") for one in orderings]
    # words that all names begin with are written once; a name keeps at least its last word
    same = list(itertools.takewhile(lambda words: len(set(words)) == 1, zip(*names, strict=False)))
    common = min(len(same), min(map(len, names)) - 1)
    return "; ".join(
        f"{' '.join(name[common if k else 0 :])}: {places(one['count'], letters)}"
        for k, (name, one) in enumerate(zip(names, orderings, strict=True))
    )


def places(count: str, letters: dict[str, str]) -> str:
    """Return at how many places an ordering was seen, in short: (a) 14/16 (6 close)."""
    readings = [text.rpartition(": ") for text in count.split("; ")]
    return "; ".join(
        (f"({letters[name]}) " if name else "") + _places(text) for name, _, text in readings
    )


def _places(count: str) -> str:
    seen, *less = count.split(", ")
    short = [text.replace(" too close to tell", " close").replace(" measured", "") for text in less]
    return seen.replace(" of ", "/") + (f" ({', '.join(short)})" if short else "")


def name_of(table: dict[str, Any]) -> str:
    """Return the part of a table's title before the colon."""
    return str(table["title"].split(":")[0])


def table_file(table: dict[str, Any]) -> str:
    """Return the file name of a table."""
    return re.sub(r"[^a-z0-9]+", "-", name_of(table).lower()).strip("-") + ".csv"


def write_table(file: Path, table: dict[str, Any]) -> None:
    """Write a table as CSV; a column with measured values is followed by their deviations."""
    rows = [[measured(value).partition(" ± ") for value in row] for row in table["rows"]]
    spread = [any(row[k][1] for row in rows) for k in range(len(table["columns"]))]
    head = [
        name
        for column, has in zip(table["columns"], spread, strict=True)
        for name in ([column, f"{column}: standard deviation"] if has else [column])
    ]
    body = [
        [
            text
            for (mean, _, deviation), has in zip(row, spread, strict=True)
            for text in ([mean, deviation] if has else [mean])
        ]
        for row in rows
    ]
    with file.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([head, *body])


def as_published(panel: dict[str, Any]) -> dict[str, Any]:
    """Return a panel whose curves belong to the published side, all of them."""
    return {**panel, "curves": [{**curve, "not_private": True} for curve in panel["curves"]]}


def file_of(figure: dict[str, Any], side: str) -> str:
    """Return the file name of one side of a figure."""
    return f"{re.sub(r'[^a-z0-9]+', '-', figure['id'].lower())}-{side}.svg"


def outcome(orderings: Sequence[dict[str, Any]]) -> str:
    """Return what came out of the orderings that the paper states."""
    counts = tally([one["verdict"] for one in orderings if one["whose"] == "paper"])
    return f"**{counts[0].upper()}{counts[1:]}.**"


def cell(text: str) -> str:
    """Return a text as the cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")


def measured(value: Any) -> str:
    """Return a value of a table as text; a measured one with its spread."""
    if isinstance(value, dict):
        mean, several = number(value["mean"]), value["repetitions"] > 1
        spread = f" ± {number(value['spread']):.2g}" if several else ""
        value = "no number" if math.isnan(mean) else f"{mean:.4g}{spread}"
    return str(value)


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
