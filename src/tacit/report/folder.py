"""Writing a folder of files: whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tacit.errors import InputError


def write_folder(
    texts: Mapping[str, str], out: Path, *, force: bool, obsolete: tuple[str, ...] = ()
) -> None:
    """Write files, given as name and text, into the folder `out`.

    The files are written to a temporary folder first (next to `out`, or inside it if it exists, for
    it may be a mount point) and then renamed, so an interrupted or failed call changes nothing.
    With `force` only these files are replaced; other files in the folder stay.

    Parameters
    ----------
    obsolete
        Files of an earlier report that are deleted if they are not among `texts`.

    Raises
    ------
    InputError
        As `check_out`, or if the files cannot be written.
    """
    check_out(out, force=force)
    target = out.resolve()
    with _as_input_error("written", out):
        target.parent.mkdir(parents=True, exist_ok=True)
        with _temporary(target, "part") as part:
            part.mkdir()
            for name, text in texts.items():
                (part / name).write_text(text, encoding="utf-8")
            _move(part, target, obsolete)


def check_out(out: Path, *, force: bool) -> None:
    """Raise unless a report may be written to the folder `out`. Nothing is left behind.

    Raises
    ------
    InputError
        If `out` is a file, cannot be written to, or is not empty and `force` is not given.
    """
    with _as_input_error("used", out):
        target = out.resolve()
        occupied = target.is_dir() and any(target.iterdir())
        place = next(p for p in (target, *target.parents) if p.exists())
    if not target.name:
        raise InputError(f"{out} is the root of the file system; name a new folder")
    if target.exists() and not target.is_dir():
        raise InputError(f"{out} is a file; name a new folder (--force does not replace files)")
    if occupied and not force:
        raise InputError(
            f"{out} is not empty; pass --force to write the report into it, or name a new folder"
        )
    if not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
        raise InputError(f"{out} cannot be made: {place} is not a folder that can be written to")
    with _as_input_error("made", out), tempfile.TemporaryDirectory(dir=place, prefix=".tacit"):
        pass  # permissions alone do not tell: the file system may be read-only or full


def _move(part: Path, target: Path, obsolete: tuple[str, ...]) -> None:
    """Rename the finished folder to `target`, or its files one by one if that exists."""
    if not target.exists():
        part.replace(target)
        return
    for name in obsolete:
        (target / name).unlink(missing_ok=True)
    for file in sorted(part.iterdir()):
        file.replace(target / file.name)


@contextmanager
def _temporary(target: Path, suffix: str) -> Iterator[Path]:
    """Yield a path next to or inside `target`, which is deleted at the end."""
    name = f".{target.name}.{os.getpid()}.{suffix}"
    path = target / name if target.exists() else target.with_name(name)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _as_input_error(what: str, out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(
            f"{out} cannot be {what} ({reason}); name another folder, or make room"
        ) from error
