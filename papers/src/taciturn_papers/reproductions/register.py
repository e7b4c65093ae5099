"""The papers that can be run again, by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from taciturn.errors import InputError
from taciturn_papers.reproductions import huang2019, liu2022, ryu2023, wang2024
from taciturn_papers.reproductions.machine import machine
from taciturn_papers.reproductions.portions import Portions, sources
from taciturn_papers.reproductions.reproduction import Report, Reproduction

PAPERS = ("huang2019", "liu2022", "wang2024", "ryu2023")
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
        Called with a line of text before every portion of the run.
    full
        The paper's own scale, where that is more than what is run otherwise.
    part
        One of `PARTS` of the paper; None: all of it.
    resume
        A folder where finished portions are kept, and from which a run that was interrupted goes
        on; its seconds are then those of all calls that it took.

    Raises
    ------
    InputError
        If there is no such paper, it has no such part (the message lists the names), or the folder
        cannot be made.
    """
    if paper not in PAPERS:
        raise InputError(f"no reproduction of {paper!r}; choose from {', '.join(PAPERS)}")
    if quick and full:
        raise InputError("a run is quick or full, not both; give one of the two")
    known = PARTS.get(paper, ())
    if part is not None and part not in known:
        named = f"choose from {', '.join(known)}" if known else "leave it out"
        raise InputError(f"{paper} has no part {part!r}; {named}")
    scale = _scale(paper, quick=quick, full=full)
    portions = Portions.of((paper, scale), report, folder=resume)
    made = _built(scale, portions, part)
    seconds = portions.seconds()
    return dataclasses.replace(made, seconds=seconds, machine=machine(), sources=sources())


AnyScale = huang2019.Scale | liu2022.Scale | wang2024.Scale | ryu2023.Scale


def _scale(paper: str, *, quick: bool, full: bool) -> AnyScale:
    """Return how much of a paper is run; but for ryu2023 the default is the paper's own scale."""
    if paper == "ryu2023" and not (quick or full):
        return ryu2023.DEFAULT
    module = {"huang2019": huang2019, "liu2022": liu2022, "wang2024": wang2024}.get(paper, ryu2023)
    scale: AnyScale = module.QUICK if quick else module.FULL
    return scale


def _built(scale: AnyScale, portions: Portions, part: str | None) -> Reproduction:
    match scale:
        case huang2019.Scale():
            return huang2019.build(scale, portions)
        case liu2022.Scale():
            return liu2022.build(scale, portions)
        case wang2024.Scale():
            return wang2024.build(scale, portions)
        case ryu2023.Scale():
            parts = [each for each in ryu2023.PARTS if part in {None, each}]
            return ryu2023.build(scale, portions, parts=parts)
