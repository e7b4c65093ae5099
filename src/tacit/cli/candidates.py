"""The file of candidates: lists of which every combination is one, or a table for each."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacit.cli.console import read_text
from tacit.cli.options import all_options
from tacit.errors import InputError
from tacit.tuning import MOST_CANDIDATES

# what all candidates share, for they are chosen among within one budget, on the same records
_SHARED = frozenset(
    {
        "epsilon",
        "delta",
        "agents",
        "evaluate",
        "observer",
        "colluders",
        "relation",
        "rows_per_person",
        "agents_per_person",
        "split_seed",
    }
)


def candidates_in(file: Path) -> list[dict[str, Any]]:
    """Return the options of each candidate in a TOML file, checked for their names and types.

    Either options with lists, as in ``rounds = [20, 50]``, of which every combination is a
    candidate, the last option varying fastest; or one table ``[[candidates]]`` for each.

    Raises
    ------
    InputError
        If the file is no such TOML, has an option that candidates do not have, or too many
        candidates.
    """
    try:
        values = tomllib.loads(read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f"{file} is no TOML ({error}); see the how-to page of tacit tune"
        ) from error
    tables = values.pop("candidates", None)
    if tables is not None and values:
        raise InputError(
            f"{file} has tables [[candidates]] and the option {next(iter(values))!r} beside them; "
            "give either tables or lists"
        )
    found = _combined(values, file) if tables is None else _listed(tables, file)
    return [_checked(one, file) for one in found]


def _combined(values: Mapping[str, Any], file: Path) -> list[dict[str, Any]]:
    for name, value in values.items():
        if not isinstance(value, list) or not value:
            raise InputError(
                f"{file}: {name} is no list; give its values in brackets, as in {name} = [...]"
            )
    number = 1
    for value in values.values():
        number *= len(value)
        if number > MOST_CANDIDATES:
            raise InputError(
                f"{file} has more than {MOST_CANDIDATES} combinations; give fewer values, since "
                "each candidate adds to the noise of all"
            )
    return [
        dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())
    ]


def _listed(tables: Any, file: Path) -> list[dict[str, Any]]:
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise InputError(f"{file}: candidates are no tables; write [[candidates]] over each")
    return tables


def _checked(values: Mapping[str, Any], file: Path) -> dict[str, Any]:
    known = {name: kind for name, (kind, _) in all_options().items() if name not in _SHARED}
    known["rounds"] = int
    options = {}
    for written, value in values.items():
        name = written.replace("-", "_")
        if name in _SHARED:
            raise InputError(f"{file}: {written} is the same for all candidates; give --{written}")
        if name not in known:
            raise InputError(f"{file}: there is no option {written!r}; see tacit train --help")
        if name in options:
            raise InputError(f"{file}: {written} is given twice for one candidate; give it once")
        options[name] = _of_kind(known[name], value, f"{file}: {written}")
    return options


def _of_kind(kind: Any, value: Any, what: str) -> Any:
    """Return a value as the option of the command line would have it."""
    if kind is float and type(value) is int:
        return float(value)
    if kind is Path and isinstance(value, str):
        return Path(value)
    if kind == list[str]:
        right = isinstance(value, list) and all(isinstance(one, str) for one in value)
    else:
        right = type(value) is kind
    if not right:
        name = getattr(kind, "__name__", str(kind)) if kind is not Path else "str"
        raise InputError(f"{what} is {value!r}; give a value of the type {name}")
    return value


def name_of(options: Mapping[str, Any]) -> str:
    """Return what a candidate is called: its options."""
    parts = (f"{name.replace('_', '-')} {value}" for name, value in options.items())
    return ", ".join(parts) or "default"
