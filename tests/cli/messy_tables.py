"""Tables as they are exported, drawn at random, some of them with a fault."""

from dataclasses import dataclass, field

import numpy as np

ROWS = 120  # more than the texts that are listed, so that free text is left out
SECRET = "XK93Q"
MISSING = ("", "", "NA", "-", "n/a", "?")
MARKS = ((".", ""), (",", ""), (".", ","), (",", "."), (",", " "), (".", "'"))
FAULTS = (
    "a target that is empty",
    "a target of one class",
    "no delimiter",
    "no encoding",
    "a row cut short",
    "a cell that is no number",
    "a category that is not listed",
    "an infinite cell",
)


@dataclass
class MessyTable:
    """A file, how it is read, and what was done to it.

    `later` is the file that is trained on: that of the draft of the bounds, or one with a further
    cell, which the bounds do not foresee.
    """

    draft: bytes
    later: bytes
    options: list[str]
    target: str
    fault: str | None
    columns: list[str] = field(default_factory=list)


def number(draw, decimal, thousands):
    """Return a function that writes numbers."""
    size = draw.choice([1.0, 50.0, 4000.0, 2e6])

    def write(k):
        text = f"{draw.uniform(-0.1, 1) * size:,.2f}"
        return text.translate(str.maketrans({",": thousands, ".": decimal}))

    return write


def date(draw, decimal, thousands):
    """Return a function that writes dates in one of the usual ways."""
    way = draw.choice(["{y}-{m:02}-{d:02}", "{d}.{m}.{y}", "{m:02}/{d:02}/{y}", "{y}/{m}/{d}"])
    return lambda k: way.format(
        y=draw.integers(1990, 2030), m=draw.integers(1, 13), d=draw.integers(1, 29)
    )


def category(draw, decimal, thousands):
    """Return a function that writes one of a few texts, in whatever case, with stray blanks."""
    texts = draw.choice(["ja", "nein", "Zürich", "New York", "o'Brien", 'so "so"', "a,b;c"], 3)
    ways = [str, str.upper, str.capitalize, "  {} ".format, lambda text: text.replace(" ", "  ")]
    used = ways[: int(draw.integers(1, 6))]
    return lambda k: used[draw.integers(len(used))](texts[draw.integers(3)])


def constant(draw, decimal, thousands):
    """Return a function that writes the same always."""
    same = draw.choice(["7", "x", "2020-01-01"])
    return lambda k: str(same)


def levels(draw, decimal, thousands):
    """Return a function that writes one of some, or of too many, texts."""
    most = int(draw.choice([30, 110]))
    return lambda k: f"level {k % most}"


def identity(draw, decimal, thousands):
    """Return a function that numbers the rows."""
    return lambda k: f"{SECRET}{k}"


def note(draw, decimal, thousands):
    """Return a function that writes free text."""
    return lambda k: f"{SECRET} patient {k}, seen twice"


KINDS = (number, number, date, category, constant, levels, identity, note)
QUIET = (identity, note, constant)  # without holes


def messy_table(seed):
    """Return a table drawn with that seed."""
    draw = np.random.default_rng(seed)
    delimiter = str(draw.choice([",", ";", "|", "\t"]))
    marks = MARKS[draw.integers(len(MARKS))]
    encoding = str(draw.choice(["utf-8", "utf-8-sig", "cp1252", "utf-16"]))
    fault = str(draw.choice(FAULTS)) if draw.uniform() < 0.35 else None
    cells = columns(draw, marks)
    spoil_early(cells, fault, marks)
    names = [str(name) for name in draw.permutation(list(cells))]
    early = written(cells, names, delimiter)
    later = spoilt_later(cells, names, delimiter, fault)
    options = {"--decimal": marks[0], "--thousands": marks[1]}
    if fault != "no delimiter":
        options["--delimiter"] = "tab" if delimiter == "\t" else delimiter
    if fault != "no encoding":
        options["--encoding"] = encoding
    flat = [word for pair in options.items() for word in pair]
    return MessyTable(early.encode(encoding), later.encode(encoding), flat, "aim", fault, names)


def columns(draw, marks):
    """Return the cells of every column, by its name."""
    kinds = [number, *(KINDS[k] for k in draw.integers(len(KINDS), size=draw.integers(2, 7)))]
    cells = {}
    for place, kind in enumerate(kinds):
        write = kind(draw, *marks)
        cells[f"{kind.__name__} {place}"] = column = [write(k) for k in range(ROWS)]
        share = 0.0 if kind in QUIET else float(draw.choice([0, 0, 0.02, 0.3]))
        blank = str(draw.choice(MISSING))
        for k in np.flatnonzero(draw.uniform(size=ROWS) < share):
            column[k] = blank
    cells["größe ä"] = [f"{k % 90}" for k in range(ROWS)]
    cells["extra"] = ["u", "v"] * (ROWS // 2)
    labels = [["yes", "no"], ["Ja", "ja", "NEIN"], ["a", "b", "c"], None][draw.integers(4)]
    write = number(draw, *marks)
    cells["aim"] = [labels[k % len(labels)] if labels else write(k) for k in range(ROWS)]
    return cells


def spoil_early(cells, fault, marks):
    """Plant a fault that the draft of the bounds meets already."""
    if fault == "a target that is empty":
        cells["aim"][3] = ""
    if fault == "a target of one class":
        cells["aim"] = ["yes"] * ROWS
    if fault == "an infinite cell":
        cells["number 0"][5] = "inf" if marks == (".", "") else "1e999"


def spoilt_later(cells, names, delimiter, fault):
    """Return the table that is trained on, with what the bounds do not foresee."""
    if fault == "a cell that is no number":
        cells["number 0"][5] = f"{SECRET} 12"
    if fault == "a category that is not listed":
        cells["extra"][9] = f"{SECRET} w"
    text = written(cells, names, delimiter)
    if fault == "a row cut short":
        text = text.rstrip("\n").rpartition(delimiter)[0]
    return text


def written(cells, names, delimiter):
    """Return the table as text; cells are quoted where they have to be."""

    def quoted(cell):
        if delimiter in cell or '"' in cell:
            return '"' + cell.replace('"', '""') + '"'
        return cell

    rows = zip(*(cells[name] for name in names), strict=True)
    lines = [names, *rows]
    return "\n".join(delimiter.join(map(quoted, line)) for line in lines) + "\n"
