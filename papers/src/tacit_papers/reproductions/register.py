"""The papers that can be run again, by name."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tacit.errors import InputError
from tacit_papers.reproductions import huang2019, liu2022, ryu2023, wang2024
from tacit_papers.reproductions.kept import Kept
from tacit_papers.reproductions.reproduction import Report, Reproduction

PAPERS = ("huang2019", "liu2022", "wang2024", "ryu2023")
# papers whose runs take long enough to be kept in portions
RESUMED = ("ryu2023",)
# papers with parts that can be run alone
PARTS: Mapping[str, tuple[str, ...]] = MappingProxyType({"ryu2023": ryu2023.PARTS})


def reproduce(
    paper: str,
    *,
    quick: bool,
    report: Report,
    full: bool = False,
    part: str | None = None,
    resume: Path | None = None,
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
    resume
        For a paper of `RESUMED`: a folder where finished portions are kept, and from which a run
        that was interrupted goes on.

    Raises
    ------
    InputError
        If there is no such paper, or it has no such part (the message lists the names), or it
        keeps no portions.
    """
    if paper not in PAPERS:
        raise InputError(f"no reproduction of {paper!r}; choose from {', '.join(PAPERS)}")
    if quick and full:
        raise InputError("a run is quick or full, not both; give one of the two")
    known = PARTS.get(paper, ())
    if part is not None and part not in known:
        named = f"choose from {', '.join(known)}" if known else "leave it out"
        raise InputError(f"{paper} has no part {part!r}; {named}")
    if resume is not None and paper not in RESUMED:
        raise InputError(f"{paper} takes minutes and keeps no portions; leave the folder out")
    began = time.time()
    if paper == "ryu2023":
        return _ryu2023(report, quick=quick, full=full, part=part, resume=resume)
    made = _built(paper, report, quick=quick)
    return dataclasses.replace(made, seconds=time.time() - began)


def _built(paper: str, report: Report, *, quick: bool) -> Reproduction:
    if paper == "huang2019":
        return huang2019.build(huang2019.QUICK if quick else huang2019.FULL, report)
    if paper == "liu2022":
        return liu2022.build(liu2022.QUICK if quick else liu2022.FULL, report)
    return wang2024.build(wang2024.QUICK if quick else wang2024.FULL, report)


def _ryu2023(
    report: Report, *, quick: bool, full: bool, part: str | None, resume: Path | None
) -> Reproduction:
    """Return the run, whose seconds are those of all calls that it took."""
    scale = ryu2023.QUICK if quick else ryu2023.FULL if full else ryu2023.DEFAULT
    parts = [each for each in ryu2023.PARTS if part in {None, each}]
    kept = Kept() if resume is None else Kept.under(resume, scale)
    began = time.time()
    earlier = kept.seconds(before=began)
    made = ryu2023.build(scale, report, parts=parts, kept=kept)
    return dataclasses.replace(made, seconds=earlier + time.time() - began)
