"""Writing a report: whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tacit.errors import InputError
from tacit.experiments import Training
from tacit.report.html import page
from tacit.report.results import curves, results
from tacit.report.strict import strict

FILES = ("results.json", "plan.json", "report.html")


def write_report(training: Training, folder: Path) -> None:
    """Write the report of a training into `folder`, which must be new or empty; see `save`."""
    save(training, folder, force=False)


def save(training: Training, out: Path, *, force: bool) -> None:
    """Write results.json, plan.json and report.html into the folder `out`.

    All is written beside `out` first and then renamed, so an interrupted or failed call leaves
    what was there before: nothing, or with `force` the earlier report.

    Raises
    ------
    InputError
        As `check_out`, or if the files cannot be written.
    """
    check_out(out, force=force)
    texts = _texts(training, out)
    target = out.resolve()
    with _one_line("written", out):
        target.parent.mkdir(parents=True, exist_ok=True)
        with _passing(target, "part") as part:
            part.mkdir()
            for name, text in texts.items():
                (part / name).write_text(text, encoding="utf-8")
            _swap(part, target)


def check_out(out: Path, *, force: bool) -> None:
    """Raise unless a report may be written to the folder `out`. Nothing is created or deleted.

    Raises
    ------
    InputError
        If `out` is a file, the current folder or one above it, not writable, or not empty; with
        `force`, an earlier report may be there, but nothing else.
    """
    with _one_line("used", out):
        target = out.resolve()
        found = sorted(entry.name for entry in target.iterdir()) if target.is_dir() else []
        exists, above = target.exists(), next(p for p in (target, *target.parents) if p.exists())
    if exists and not target.is_dir():
        raise InputError(f"{out} is a file; name a new folder (--force does not replace files)")
    if target in (Path.cwd(), *Path.cwd().parents):
        raise InputError(f"{out} is the current folder or one above it; name a new folder")
    if found:
        _check_found(out, found, force)
    place = above if above != target else target.parent
    if not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
        raise InputError(f"{out} cannot be made: {place} is not a folder that can be written to")


def _check_found(out: Path, found: list[str], force: bool) -> None:
    strangers = [name for name in found if name not in FILES]
    if strangers or "results.json" not in found:
        raise InputError(
            f"{out} is not empty and is no report of tacit (it holds {(strangers or found)[0]}), "
            "so not even --force replaces it; name a new folder"
        )
    if not force:
        raise InputError(
            f"{out} is not empty; pass --force to replace the report in it, or name a new folder"
        )


def _texts(training: Training, out: Path) -> dict[str, str]:
    values = results(training, out)
    plan = {**training.plan.to_dict(), "digest": training.plan.digest}
    return {
        "results.json": _json({**values, "curves": curves(training)}),
        "plan.json": _json(strict(plan)),
        "report.html": page(training),
    }


def _json(values: Any) -> str:
    return json.dumps(values, indent=1, allow_nan=False) + "\n"


def _swap(part: Path, target: Path) -> None:
    """Rename `part` to `target`; what was there is deleted last, and comes back if that fails."""
    old = part.with_suffix(".old")
    try:
        if target.exists():
            target.replace(old)
        part.replace(target)
    except BaseException:
        if old.exists():
            old.replace(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _passing(target: Path, suffix: str) -> Iterator[Path]:
    """Yield a name beside `target`; whatever lies there at the end is deleted."""
    path = target.with_name(f".{target.name}.{os.getpid()}.{suffix}")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _one_line(what: str, out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(
            f"{out} cannot be {what} ({reason}); name another folder, or make room"
        ) from error
