"""The papers that can be run again, by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from taciturn.errors import InputError
from taciturn_papers.reproductions import huang2019, liu2022, ryu2023, wang2024
from taciturn_papers.reproductions.machine import machine
from taciturn_papers.reproductions.portions import Portions, sources
from taciturn_papers.reproductions.reproduction import Report, Reproduction
from taciturn_papers.reproductions.scale import changed

PAPERS = ("huang2019", "liu2022", "wang2024", "ryu2023")
# papers with parts that can be run alone
PARTS: Mapping[str, tuple[str, ...]] = MappingProxyType({"ryu2023": ryu2023.PARTS})


AnyScale = huang2019.Scale | liu2022.Scale | wang2024.Scale | ryu2023.Scale
_LARGER = ("ryu2023",)  # papers whose default is not yet their full scale


def scale_of(
    paper: str, *, quick: bool = False, full: bool = False, settings: Sequence[str] = ()
) -> AnyScale:
    """Return how much of a paper is run.

    Parameters
    ----------
    quick
        Minutes instead of hours: fewer records, rounds and repetitions.
    full
        The paper's scale, where that is more than what is run otherwise.
    settings
        NAME=VALUE, to be changed; see `scale.changed`.

    Raises
    ------
    InputError
        If there is no such paper, both are asked for, the paper has no larger scale than its
        default, or there is no such setting.
    """
    if paper not in PAPERS:
        raise InputError(f"no reproduction of {paper!r}; choose from {', '.join(PAPERS)}")
    if quick and full:
        raise InputError("a run is quick or full, not both; give one of the two")
    if full and paper not in _LARGER:
        raise InputError(
            f"{paper} is run at its full scale unless --quick is given; leave out full"
        )
    module = {"huang2019": huang2019, "liu2022": liu2022, "wang2024": wang2024}.get(paper, ryu2023)
    usual = ryu2023.DEFAULT if paper == "ryu2023" and not full else module.FULL
    scale: AnyScale = module.QUICK if quick else usual
    return changed(scale, settings)


def reproduce(  # noqa: PLR0913 - what is run, how much of it, and where it is kept
    paper: str,
    *,
    report: Report,
    quick: bool = False,
    full: bool = False,
    settings: Sequence[str] = (),
    part: str | None = None,
    resume: Path | None = None,
) -> Reproduction:
    """Return the experiments of a paper, run again at the scale that `scale_of` returns.

    Parameters
    ----------
    report
        Called with a line of text before every portion of the run.
    part
        One of `PARTS` of the paper; None: all of it.
    resume
        A folder where finished portions are kept, and from which a run that was interrupted goes
        on; its seconds are then those of all calls that it took.

    Raises
    ------
    InputError
        If there is no such paper or scale, it has no such part (the message lists the names), or
        the folder cannot be made.
    """
    scale = scale_of(paper, quick=quick, full=full, settings=settings)
    known = PARTS.get(paper, ())
    if part is not None and part not in known:
        named = f"choose from {', '.join(known)}" if known else "leave it out"
        raise InputError(f"{paper} has no part {part!r}; {named}")
    portions = Portions.of((paper, scale), report, folder=resume)
    made = _built(scale, portions, part)
    run = f"{made.run}, with {' and '.join(settings)}" if settings else made.run
    return dataclasses.replace(
        made, run=run, seconds=portions.seconds(), machine=machine(), sources=sources()
    )


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
