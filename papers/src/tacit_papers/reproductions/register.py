"""The papers that can be run again, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tacit.errors import InputError
from tacit_papers.reproductions import huang2019, liu2022, ryu2023, wang2024
from tacit_papers.reproductions.reproduction import Reproduction

Report = Callable[[str], None]


def _huang2019(quick: bool, report: Report) -> Reproduction:
    return huang2019.build(huang2019.QUICK if quick else huang2019.FULL, report)


def _liu2022(quick: bool, report: Report) -> Reproduction:
    return liu2022.build(liu2022.QUICK if quick else liu2022.FULL, report)


def _wang2024(quick: bool, report: Report) -> Reproduction:
    return wang2024.build(wang2024.QUICK if quick else wang2024.FULL, report)


_BUILDERS: Mapping[str, Callable[[bool, Report], Reproduction]] = MappingProxyType(
    {"huang2019": _huang2019, "liu2022": _liu2022, "wang2024": _wang2024}
)
# papers whose own scale is not for one computer, with the parts that can be run alone
PARTS: Mapping[str, tuple[str, ...]] = MappingProxyType({"ryu2023": ryu2023.PARTS})
PAPERS = (*_BUILDERS, *PARTS)


def reproduce(
    paper: str, *, quick: bool, report: Report, full: bool = False, part: str | None = None
) -> Reproduction:
    """Return the experiments of a paper, run again.

    Parameters
    ----------
        quick
    def _liu2022(quick: bool, report: Report) -> Reproduction:
        return liu2022.build(liu2022.QUICK if quick else liu2022.FULL, report)


    def _wang2024(quick: bool, report: Report) -> Reproduction:
        return wang2024.build(wang2024.QUICK if quick else wang2024.FULL, report)


    _BUILDERS: Mapping[str, Callable[[bool, Report], Reproduction]] = MappingProxyType(
        {"huang2019": _huang2019, "liu2022": _liu2022, "wang2024": _wang2024}
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
    if paper in _BUILDERS:
        return _BUILDERS[paper](quick, report)
    scale = ryu2023.FULL if full else ryu2023.DEFAULT
    parts = [each for each in ryu2023.PARTS if part in {None, each}]
    return ryu2023.build(ryu2023.QUICK if quick else scale, report, parts=parts)
