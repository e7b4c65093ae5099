"""The command taciturn-verify."""

import argparse
import sys
from collections.abc import Sequence
from json import dumps, loads
from pathlib import Path
from types import SimpleNamespace

from taciturn_verify.account import verify_account
from taciturn_verify.judging import verify
from taciturn_verify.reading import demand, parse


def find_file(path: Path) -> Path:
    """Return the file, or of a folder its certificate of the highest number or its one account."""
    if not path.is_dir():
        return path
    names = [file.stem.removeprefix("certificate-") for file in path.glob("certificate-*.json")]
    accounts = [*path.glob("*.account")]
    if numbers := [int(name) for name in names if name.isdecimal()]:
        return path / f"certificate-{max(numbers)}.json"
    demand(len(accounts) == 1, f"{path} holds {len(accounts)} accounts and no certificate-N.json")
    return accounts[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the file that the command line names."""
    parser = argparse.ArgumentParser("taciturn-verify")
    parser.add_argument("path", metavar="FILE_OR_FOLDER", type=Path)
    parser.add_argument("--json", action="store_true", help="print the verdict and figures as JSON")
    return check(**vars(parser.parse_args(arguments)))


def check(path: Path, json: bool = False) -> int:
    """Print whether a certificate, an account, or the one in a folder follows from its file.

    The exit code is 0 if it follows, 1 if it does not, 2 if it cannot be read.
    """
    try:
        file = find_file(path)
        account = file.suffix == ".account"
        found = verify_account(file) if account else verify(parse(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        print(f"{path} cannot be read: {error}", file=sys.stderr)
        return 2
    if json:
        plain = loads(dumps(found._asdict()), parse_constant=lambda _: "infinity")  # in words
        print(dumps(plain, indent=1))
    else:
        print(f"{file}: {found.verdict}: {found.reason}.")
        for name, figure in found.figures.items() if account else ():
            shown = figure if isinstance(figure, str) else f"{figure:.6g}"
            print(f"  {name.replace('_', ' ')}: {shown}")
    return 1 if found.verdict == "does not follow" else 0


SUMMARY = "Check a certificate or an account without the library's code."
COMMANDS = (SimpleNamespace(name="verify", summary=SUMMARY, load=lambda: check),)  # of taciturn
