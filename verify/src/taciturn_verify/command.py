"""The command taciturn-verify."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from taciturn_verify.judging import verify
from taciturn_verify.reading import demand, parse


def _find_last(path: Path) -> Path:
    if not path.is_dir():
        return path
    names = [file.stem.removeprefix("certificate-") for file in path.glob("certificate-*.json")]
    numbers = [int(name) for name in names if name.isdecimal()]
    demand(numbers, f"{path} holds no certificate-N.json")
    return path / f"certificate-{max(numbers)}.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the verdict; return 0 if it follows, 1 if not, 2 if the file cannot be read."""
    parser = argparse.ArgumentParser("taciturn-verify")
    parser.add_argument("file", metavar="FILE_OR_FOLDER", type=Path)
    parser.add_argument("--json", action="store_true", help="print the verdict and figures as JSON")
    given = parser.parse_args(arguments)
    try:
        file = _find_last(given.file)
        document = parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"{given.file} cannot be read: {error}", file=sys.stderr)
        return 2
    found = verify(document)
    if given.json:
        print(json.dumps(found._asdict(), indent=1).replace("Infinity", '"infinity"'))
    else:
        print(f"{file}: {found.verdict}: {found.reason}.")
    return 1 if found.verdict == "does not follow" else 0
