"""Where accounts and the heads of their chains lie."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path

from taciturn.errors import InputError

SUFFIX = ".account"
STATE_DIR = "TACITURN_STATE_DIR"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def accounts_folder(given: Path | None = None) -> Path:
    """Return the folder of accounts: the one given, or `taciturn/accounts` in the user's data."""
    if given is not None:
        return given
    return data_folder() / "accounts"


def data_folder() -> Path:
    """Return the folder `taciturn` in the user's data folder."""
    return _user_folder("XDG_DATA_HOME", ".local/share") / "taciturn"


def heads_folder() -> Path:
    """Return the folder of heads: `heads` in TACITURN_STATE_DIR, or in the user's state folder."""
    named = os.environ.get(STATE_DIR, "")
    if named:
        return Path(named).expanduser() / "heads"
    return _user_folder("XDG_STATE_HOME", ".local/state") / "taciturn" / "heads"


def private_folder(folder: Path) -> Path:
    """Make a folder, and those above it that are missing, for its user alone; return it.

    A folder that exists keeps its permissions.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)
    return folder


def private_opener(file: str, flags: int) -> int:
    """Open a file as `open` does; one that is created is for its user alone to read."""
    return os.open(file, flags, 0o600)


def head_file(identity: str) -> Path:
    """Return the file of the head of an account."""
    return heads_folder() / f"{identity}.head"


def place_file(file: Path) -> Path:
    """Return the file that says which account was opened under a name in a folder."""
    place = hashlib.sha256(os.fsencode(file.resolve())).hexdigest()
    return heads_folder() / f"place-{place[:32]}.id"


def account_file(name: str, folder: Path) -> Path:
    """Return the file of an account.

    Raises `InputError` if the name is not one to 64 letters, digits, dots, hyphens and underscores,
    or starts with something else than a letter or a digit.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is no name of an account; use up to 64 letters, digits, dots, hyphens and "
            "underscores, the first a letter or a digit"
        )
    return folder / f"{name}{SUFFIX}"


def _user_folder(variable: str, inside: str) -> Path:
    """Return the folder of the user's that an environment variable or the system names."""
    named = os.environ.get(variable, "")
    if named and Path(named).is_absolute():
        return Path(named)
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA", Path.home()))
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return Path.home() / inside
