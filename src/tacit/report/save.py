"""Writing a report: whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tacit.applications import model_text
from tacit.errors import InputError
from tacit.experiments import Training, released
from tacit.report.html import page
from tacit.report.oracle import oracle_metrics
from tacit.report.results import curves, results
from tacit.report.strict import strict

FILES = ("results.json", "plan.json", "model.json", "report.html")
ORACLE = "oracle_metrics.json"


def write_report(training: Training, folder: Path) -> None:
    """Write the report of a training into `folder`, which must be new or empty; see `save`."""
    save(training, folder, force=False)


def save(training: Training, out: Path, *, force: bool, oracle: bool = False) -> None:
    """Write results.json, plan.json, model.json and report.html into the folder `out`.

    All is written beside `out` first and then renamed, so an interrupted or failed call leaves
    what was there before. With `force` only these files are replaced, and an oracle_metrics.json of
    an earlier report goes; whatever else the folder holds stays.

    Parameters
    ----------
    oracle
        Whether to write oracle_metrics.json too: metrics on private records, not for publication.

    Raises
    ------
    InputError
        As `check_out`, or if the files cannot be written.
    """
    check_out(out, force=force)
    texts = _texts(training, out)
    if oracle:
        texts[ORACLE] = json_text(oracle_metrics(training))
    write_files(texts, out)


def write_files(texts: dict[str, str], out: Path) -> None:
    """Write these files into the folder `out`, all or none; `check_out` has allowed it."""
    target = out.resolve()
    with _one_line("written", out):
        target.parent.mkdir(parents=True, exist_ok=True)
        with _passing(target, "part") as part:
            part.mkdir()
            for name, text in texts.items():
                (part / name).write_text(text, encoding="utf-8")
            _move(part, target)


def check_out(out: Path, *, force: bool) -> None:
    """Raise unless a report may be written to the folder `out`. Nothing is created or deleted.

    Raises
    ------
    InputError
        If `out` is a file, cannot be written to, or is not empty and `force` is not given.
    """
    with _one_line("used", out):
        target = out.resolve()
        found = target.is_dir() and any(target.iterdir())
        place = next(p for p in (target, *target.parents) if p.exists())
    if not target.name:
        raise InputError(f"{out} is the root of the file system; name a new folder")
    if target.exists() and not target.is_dir():
        raise InputError(f"{out} is a file; name a new folder (--force does not replace files)")
    if found and not force:
        raise InputError(
            f"{out} is not empty; pass --force to write the report into it, or name a new folder"
        )
    if not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
        raise InputError(f"{out} cannot be made: {place} is not a folder that can be written to")


def _texts(training: Training, out: Path) -> dict[str, str]:
    values = results(training, out)
    plan = {**training.plan.to_dict(), "digest": training.plan.digest}
    return {
        "results.json": json_text({**values, "curves": curves(training)}),
        "plan.json": json_text(strict(plan)),
        "model.json": model_text(released(training)),
        "report.html": page(training),
    }


def json_text(values: Any) -> str:
    """Return values as a JSON file; they must be strict already."""
    return json.dumps(values, indent=1, allow_nan=False) + "\n"


def _move(part: Path, target: Path) -> None:
    """Rename the finished folder to `target`, or its files one by one if that exists."""
    if not target.exists():
        part.replace(target)
        return
    (target / ORACLE).unlink(missing_ok=True)
    for file in sorted(part.iterdir()):
        file.replace(target / file.name)


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
