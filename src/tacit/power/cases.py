"""Cases by name: the two bundled ones, or any MATPOWER file."""

from __future__ import annotations

import lzma
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from types import MappingProxyType

from tacit.errors import DataError
from tacit.power.case import Case, parse_case, read_case

# PGLib-OPF v19.01, CC BY 4.0: the IEEE networks with line limits (bundled/NOTICE)
BUNDLED: Mapping[str, str] = MappingProxyType(
    {"case14": "pglib_opf_case14_ieee.m", "case118": "pglib_opf_case118_ieee.m"}
)


def chosen_case(wanted: str) -> Case:
    """Return the bundled case of that name, or the case in that file.

    Raises
    ------
    DataError
        If it is neither, or the file cannot be understood.

    Examples
    --------
    >>> len(chosen_case("case14").bus)
    14
    """
    if wanted in BUNDLED:
        return bundled_case(wanted)
    if not Path(wanted).is_file():
        raise DataError(
            f"{wanted} is neither a bundled case ({', '.join(BUNDLED)}) nor a file; name a "
            "MATPOWER .m file"
        )
    return read_case(Path(wanted))


def bundled_case(name: str) -> Case:
    """Return `case14` or `case118` as PGLib-OPF v19.01 has it."""
    file = BUNDLED[name]
    packed = resources.files("tacit.power") / "bundled" / f"{file}.xz"
    text = lzma.decompress(packed.read_bytes()).decode("utf-8")
    return parse_case(text, name=name, source=f"bundled {file}")
