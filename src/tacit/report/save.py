"""The report of a training as a folder of files, which is written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tacit.budget import private_opener
from tacit.errors import InputError
from tacit.models import model_text
from tacit.report.certificates import add_certificate, keep_earlier
from tacit.report.html import page
from tacit.report.results import (
    certificate_text,
    curves,
    curves_text,
    json_text,
    oracle_metrics,
    results,
    strict,
)
from tacit.training import Training, released

FILES = ("results.json", "proposal.json", "plan.json", "model.json", "report.html")
ORACLE, CURVES = "oracle_metrics.json", "curves.csv"


def save(
    training: Training,
    out: Path,
    *,
    force: bool,
    oracle: bool = False,
    further: Mapping[str, Any] | None = None,
) -> Path:
    """Write `FILES` into the folder `out`, and `CURVES` where test metrics may be shown.

    They are written whole or not at all, see `write_folder`. With `force` only these files are
    replaced, and the further files of an earlier report are deleted, but for certificates: that of
    every run stays, in a file with a number of its own.

    Parameters
    ----------
    oracle
        Whether to write oracle_metrics.json too: metrics on private records, not for publication.
    further
        Values that are added to the results.

    Returns
    -------
    Path
        The file of the certificate.
    """
    shown = curves(training)
    plan = {**training.plan.to_dict(), "digest": training.plan.digest}
    if training.evaluation is not None:
        last = training.evaluation.plan
        plan["evaluation"] = {**last.to_dict(), "digest": last.digest}
    if training.choice is not None:
        plan["choice"] = {"certificate": training.choice.to_dict()}
    texts = {
        "results.json": json_text({**results(training, out), **(further or {}), "curves": shown}),
        "proposal.json": training.proposal.to_json() + "\n",
        "plan.json": json_text(strict(plan)),
        "model.json": model_text(released(training)),
        "report.html": page(training),
    }
    if shown:
        texts[CURVES] = curves_text(shown)
    if oracle:
        texts[ORACLE] = json_text(oracle_metrics(training))
    certificate = certificate_text(
        training.plan,
        training.certificate,
        data=training.dataset.name,
        proposal=training.proposal.digest,
        algorithm=training.proposal.method.name,
    )
    added = write_folder(
        texts, out, force=force, obsolete=(ORACLE, CURVES), certificate=certificate
    )
    assert added is not None
    return added


def write_folder(
    texts: Mapping[str, str],
    out: Path,
    *,
    force: bool,
    obsolete: tuple[str, ...] = (),
    certificate: str | None = None,
) -> Path | None:
    """Write files, given as name and text, into the folder `out`.

    The files are written to a temporary folder first (next to `out`, or inside it if it exists, for
    it may be a mount point) and then renamed, so an interrupted or failed call changes nothing, or
    adds a certificate. With `force` only these files are replaced; other files in the folder stay.

    Parameters
    ----------
    obsolete
        Files of an earlier report that are deleted if they are not among `texts`.
    certificate
        That of the run which the files are about; see `tacit.report.certificates`.

    Returns
    -------
    Path or None
        The file of the certificate; None without one.

    Raises
    ------
    InputError
        As `check_out`, or if the files cannot be written.
    """
    check_out(out, force=force)
    target = out.resolve()
    with _as_input_error("written", out):
        target.parent.mkdir(parents=True, exist_ok=True)
        name = f".{target.name}.{os.getpid()}.part"
        part = target / name if target.exists() else target.with_name(name)
        try:
            # results are the owner's to show: what is released, its owner hands on
            part.mkdir(mode=0o700)
            for name, text in texts.items():
                with open(part / name, "w", encoding="utf-8", opener=private_opener) as file:
                    file.write(text)
            added = None
            if certificate is not None:
                # before anything is replaced, and in a new folder together with the rest
                added = _added(certificate, target if target.exists() else part, new=part)
            _move(part, target, obsolete)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return None if added is None else out / added


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


def _added(certificate: str, folder: Path, *, new: Path) -> str:
    if folder != new:
        keep_earlier(folder)
    return add_certificate(certificate, folder)


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
def _as_input_error(what: str, out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(
            f"{out} cannot be {what} ({reason}); name another folder, or make room"
        ) from error
