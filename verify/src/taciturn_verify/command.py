"""The command taciturn-verify."""

import argparse
import dataclasses
import json
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from taciturn_verify.judging import verify
from taciturn_verify.reading import UnreadableError, parse


def find_file(path: Path) -> Path:
    """Return a file itself, or a folder's certificate of the highest number."""
    if not path.is_dir():
        return path
    numbers = [
        int(found[1])
        for file in path.iterdir()
        if (found := re.fullmatch(r"certificate-(\d+)\.json", file.name))
    ]
    if not numbers:
        raise UnreadableError(f"{path} holds no certificate-N.json")
    return path / f"certificate-{max(numbers)}.json"


def write_plain(value: Any) -> Any:
    """Return a figure as JSON holds it: "infinity" for an infinite one."""
    if isinstance(value, dict):
        return {key: write_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [write_plain(item) for item in value]
    return "infinity" if value == math.inf else value


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the verdict; return 0 if it follows, 1 if not, 2 if the file cannot be read."""
    parser = argparse.ArgumentParser(
        "taciturn-verify", description="Check that a privacy certificate follows."
    )
    parser.add_argument("file", metavar="FILE_OR_FOLDER", type=Path)
    parser.add_argument(
        "--json", action="store_true", help="print the verdict and its figures as JSON"
    )
    given = parser.parse_args(arguments)
    try:
        file = find_file(given.file)
        document = parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"{given.file} cannot be read: {error}", file=sys.stderr)
        return 2
    found = verify(document)
    if given.json:
        print(json.dumps(write_plain(dataclasses.asdict(found)), indent=1, allow_nan=False))
    else:
        print(f"{file}: {found.verdict}: {found.reason}.")
    return 1 if found.verdict == "does not follow" else 0


if __name__ == "__main__":
    sys.exit(main())
