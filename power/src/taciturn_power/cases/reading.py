"""The case that a person names: a bundled one, one of pandapower's, or a file of either tool."""

from __future__ import annotations

from pathlib import Path

from taciturn.errors import DataError, InputError
from taciturn_power.cases.case import BUNDLED, Case, bundled_case, parse_case
from taciturn_power.cases.pandapower_net import published_case, read_pandapower

PREFIX = "pandapower:"
_MOST_BYTES = 100_000_000


def read_case(path: Path | str) -> Case:
    """Return the case that a file describes: MATPOWER's `.m`, or a pandapower network in JSON.

    Of a `.m` file comments, line continuations, commas and any white space are understood; code is
    not run, so a matrix must hold plain numbers. JSON is read by pandapower, which imports the
    modules that the file names and may run code: give a file of your own only.

    Raises
    ------
    DataError
        If the file cannot be read, or is neither. The message names the file.
    MissingPackageError
        If the file is JSON and pandapower is not installed.
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
    if path.suffix.lower() == ".json" or text.lstrip("\ufeff \t\r\n").startswith("{"):
        return read_pandapower(path)
    return parse_case(text, name=path.stem, source=str(path))


def chosen_case(choice: str) -> Case:
    """Return the bundled case of that name, `pandapower:NAME`, or the case in that file.

    Raises
    ------
    DataError
        If it is none of these, or the file cannot be understood.
    MissingPackageError
        If a network of pandapower is named, or JSON, and pandapower is not installed.

    Examples
    --------
    >>> len(chosen_case("case14").bus)
    14
    """
    if choice in BUNDLED:
        return bundled_case(choice)
    if choice.startswith(PREFIX):
        return published_case(choice.removeprefix(PREFIX))
    if not Path(choice).is_file():
        raise DataError(
            f"{choice} is neither a bundled case ({', '.join(BUNDLED)}) nor a file; name a "
            f"MATPOWER .m file, JSON that pandapower wrote, or {PREFIX}NAME, a case of pandapower"
        )
    return read_case(Path(choice))


def is_published(choice: str) -> bool:
    """Return whether the case that was named is a published one, of this package or pandapower."""
    return choice in BUNDLED or choice.startswith(PREFIX)
