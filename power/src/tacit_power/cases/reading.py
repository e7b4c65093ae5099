"""The case that a person names: a bundled one, one of pandapower's, or a file of either tool."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from tacit.errors import DataError, InputError, MissingPackageError, install_with
from tacit_power.cases.case import BUNDLED, Case, bundled_case, parse_case
from tacit_power.cases.pandapower_case import case_of_net
from tacit_power.cases.tables import looks_like_json, parse_net

PREFIX = "pandapower:"
_MOST_BYTES = 100_000_000
_NAMED_HERE = ("networks", "power_system_test_case_jsons")


def read_case(path: Path | str) -> Case:
    """Return the case that a file describes: MATPOWER's `.m`, or a pandapower network in JSON.

    Of a `.m` file comments, line continuations, commas and any white space are understood; code is
    not run, so a matrix must hold plain numbers. Of JSON only tables are read, and no object in it
    is restored (`tacit_power.cases.tables`).

    Raises
    ------
    DataError
        If the file cannot be read, or is neither. The message names the file.
    InputError
        If a text is given in place of a path.

    Notes
    -----
    **Guarantee.** A demand that is no number is refused in view, so whoever sees the refusal
    learns that a cell is malformed, and which; what stands in it is not quoted.
    """
    what = "name a MATPOWER .m file, or JSON that pandapower wrote"
    if "\n" in str(path):
        raise InputError("read_case is given a text of several lines, which is no path; " + what)
    path = Path(path)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise DataError(f"{path} is larger than any case file; {what}")
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(f"{path} cannot be read ({reason}); {what}") from error
    if path.suffix.lower() == ".json" or looks_like_json(text):
        return case_of_net(parse_net(text, source=str(path)), name=path.stem)
    return parse_case(text, name=path.stem, source=str(path))


def chosen_case(choice: str) -> Case:
    """Return the bundled case of that name, `pandapower:NAME`, or the case in that file.

    Raises
    ------
    DataError
        If it is none of these, or the file cannot be understood.
    MissingPackageError
        If a network of pandapower is named and pandapower is not installed.

    Examples
    --------
    >>> len(chosen_case("case14").bus)
    14
    """
    if choice in BUNDLED:
        return bundled_case(choice)
    if choice.startswith(PREFIX):
        return _of_pandapower(choice.removeprefix(PREFIX))
    if not Path(choice).is_file():
        raise DataError(
            f"{choice} is neither a bundled case ({', '.join(BUNDLED)}) nor a file; name a "
            f"MATPOWER .m file, JSON that pandapower wrote, or {PREFIX}NAME, a case of pandapower"
        )
    return read_case(Path(choice))


def is_published(choice: str) -> bool:
    """Return whether the case that was named is a published one, of this package or pandapower."""
    return choice in BUNDLED or choice.startswith(PREFIX)


def _of_pandapower(name: str) -> Case:
    """Return a test case that comes with pandapower, from its file; pandapower is not imported."""
    found = find_spec("pandapower")
    if found is None or not found.submodule_search_locations:
        raise MissingPackageError(
            f"the networks of pandapower need that package; {install_with('power[pandapower]')}"
        )
    folder = Path(found.submodule_search_locations[0]).joinpath(*_NAMED_HERE)
    named = sorted(file.stem for file in folder.glob("*.json"))
    if not re.fullmatch(r"\w+", name) or name not in named:
        raise InputError(
            f"pandapower has no case {name!r}; choose from {', '.join(named)}, or save another "
            "network with pandapower.to_json and name that file"
        )
    text = (folder / f"{name}.json").read_text(encoding="utf-8")
    return case_of_net(parse_net(text, source=f"{PREFIX}{name}"), name=f"pandapower {name}")
