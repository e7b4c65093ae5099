"""The papers that can be run again, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tacit.errors import InputError
from tacit.reproductions import huang2019, liu2022, wang2024
from tacit.reproductions.reproduction import Reproduction

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
PAPERS = tuple(_BUILDERS)


def reproduce(paper: str, *, quick: bool, report: Report) -> Reproduction:
    """Return the experiments of a paper, run again.

    Parameters
    ----------
    quick
        Fewer repetitions, budgets and records: a few minutes at most.
    report
        Called with a line of text before every part.

    Raises
    ------
    InputError
        If there is no such paper; the message lists the names.
    """
    if paper not in _BUILDERS:
        raise InputError(f"no reproduction of {paper!r}; choose from {', '.join(PAPERS)}")
    return _BUILDERS[paper](quick, report)
