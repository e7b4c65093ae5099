"""The papers that can be run again, by name."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from types import MappingProxyType

from tacit.errors import InputError
from tacit_papers.reproductions import huang2019, liu2022, ryu2023, wang2024
from tacit_papers.reproductions.reproduction import Report, Reproduction

PAPERS = ("huang2019", "liu2022", "wang2024", "ryu2023")
# papers with parts that can be run alone
PARTS: Mapping[str, tuple[str, ...]] = MappingProxyType({"ryu2023": ryu2023.PARTS})


def reproduce(
    paper: str, *, quick: bool, report: Report, full: bool = False, part: str | None = None
) -> Reproduction:
    """Return the experiments of a paper, run again.

    Parameters
    ----------
    quick
        Minutes instead of hours: fewer records, rounds and repetitions.
    report
        Called with a line of text before every part.
    full
        The paper's own scale, where that is more than what is run otherwise.
    part
        One of `PARTS` of the paper; None: all of it.

    Raises
    ------
    InputError
        If there is no such paper, or it has no such part; the message lists the names.
    """
    if paper not in PAPERS:
        raise InputError(f"no reproduction of {paper!r}; choose from {', '.join(PAPERS)}")
    if quick and full:
        raise InputError("a run is quick or full, not both; give one of the two")
    known = PARTS.get(paper, ())
    if part is not None and part not in known:
        named = f"choose from {', '.join(known)}" if known else "leave it out"
        raise InputError(f"{paper} has no part {part!r}; {named}")
    began = time.perf_counter()
    made = _built(paper, report, quick=quick, full=full, part=part)
    return dataclasses.replace(made, seconds=time.perf_counter() - began)


def _built(
    paper: str, report: Report, *, quick: bool, full: bool, part: str | None
) -> Reproduction:
    if paper == "huang2019":
        return huang2019.build(huang2019.QUICK if quick else huang2019.FULL, report)
    if paper == "liu2022":
        return liu2022.build(liu2022.QUICK if quick else liu2022.FULL, report)
    if paper == "wang2024":
        return wang2024.build(wang2024.QUICK if quick else wang2024.FULL, report)
    scale = ryu2023.FULL if full else ryu2023.DEFAULT
    parts = [each for each in ryu2023.PARTS if part in {None, each}]
    return ryu2023.build(ryu2023.QUICK if quick else scale, report, parts=parts)
