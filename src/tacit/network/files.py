"""Networks from files: a list of edges, or GraphML."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as Xml

import numpy as np

from tacit.errors import InputError
from tacit.network.graph import Graph

SUFFIXES = (".txt", ".csv", ".edges", ".graphml")


def read_network(file: Path) -> Graph:
    """Return the network in `file`: GraphML if its name ends so, else one edge a line.

    A line holds two names, separated by a comma, semicolon or space; what follows a # is a comment.
    Names that are all whole numbers are put in their order, others in that of the alphabet; agents
    are numbered 0, 1, ... accordingly.

    Raises
    ------
    InputError
        If the file cannot be read, is directed, has a line that is not an edge, or is not a
        connected network (see `Graph`).
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"network {file} cannot be read as text: {error}") from error
    nodes, pairs = _graphml(text) if file.suffix.lower() == ".graphml" else _lines(text)
    if not pairs:
        raise InputError(f"network {file} holds no edge; give one edge a line, as in 'a b'")
    names = _in_order({*nodes, *(name for pair in pairs for name in pair)})
    number = {name: place for place, name in enumerate(names)}
    return Graph(len(names), np.array([[number[a], number[b]] for a, b in pairs]))


def _lines(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    pairs = []
    for count, line in enumerate(text.splitlines(), start=1):
        names = re.split(r"[\s,;]+", line.split("#")[0].strip())
        if names == [""]:
            continue
        if len(names) != 2 or not all(names):
            raise InputError(f"line {count} of the network is {line!r}; it must hold two names")
        pairs.append((names[0], names[1]))
    return [], pairs


def _graphml(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    if "<!DOCTYPE" in text:  # entities may expand without bound
        raise InputError("the GraphML file declares a document type; remove the <!DOCTYPE ...>")
    try:
        root = Xml.fromstring(text)
    except Xml.ParseError as error:
        raise InputError(f"the GraphML file is not well-formed XML: {error}") from error
    graphs = root.findall("{*}graph")
    if len(graphs) != 1:
        raise InputError(f"the GraphML file holds {len(graphs)} graphs; it must hold one")
    graph = graphs[0]
    directed = graph.get("edgedefault") == "directed"
    nodes = [_attribute(node, "id") for node in graph.findall("{*}node")]
    pairs = []
    for edge in graph.findall("{*}edge"):
        if edge.get("directed", "true" if directed else "false") == "true":
            raise InputError("the GraphML file has directed edges; a network must be undirected")
        pairs.append((_attribute(edge, "source"), _attribute(edge, "target")))
    return nodes, pairs


def _attribute(element: Xml.Element, name: str) -> str:
    value = element.get(name)
    if value is None:
        raise InputError(f"an element of the GraphML file has no {name!r}; add it")
    return value


def _in_order(names: set[str]) -> list[str]:
    if all(re.fullmatch(r"-?\d+", name) for name in names):
        return sorted(names, key=int)
    return sorted(names)
