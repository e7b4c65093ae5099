"""The report of a training as a folder of files.

What a run released is written first, atomically; everything else is added later. Certificates are
never replaced: privacy losses of runs on the same records compose, whichever model is kept.
"""

from __future__ import annotations

import dataclasses
import io
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from taciturn.budget import private_opener
from taciturn.certificates import stated
from taciturn.errors import InputError
from taciturn.models import model_text
from taciturn.report.results import (
    certificate_file,
    curves,
    curves_text,
    json_text,
    oracle_metrics,
    plan_values,
    results,
)
from taciturn.report.training import training_page
from taciturn.training import Attempts, Training, released

FILES = ("results.json", "proposal.json", "plan.json", "model.json", "trace.npz", "report.html")
ORACLE, CURVES = "oracle_metrics.json", "curves.csv"
_ALL = (*FILES, ORACLE, CURVES)
FIRST_CERTIFICATE = "certificate-1.json"
_NAME = re.compile(r"certificate-(\d+)\.json")


def save_released(training: Training, out: Path, *, force: bool) -> Path:
    """Write model.json, trace.npz and the certificate of a run; return the certificate's path.

    A model that is not finite is in the trace only: its budget is spent, and must be certified.
    With `force`, the other files of an earlier report are deleted, except certificates.
    """
    added = write_folder(
        _released(training), out, force=force, obsolete=_ALL, certificate=certificate_text(training)
    )
    assert added is not None
    return added


def save(  # noqa: PLR0913 - what is written, where, and beside what
    training: Training,
    out: Path,
    *,
    force: bool,
    oracle: bool = False,
    further: Mapping[str, Any] | None = None,
    certificate: Path | None = None,
    warn: Callable[[str], None] | None = None,
) -> Path:
    """Write `FILES` into the folder `out`, and `CURVES` where test metrics may be shown.

    Files are written as by `write_folder`. If one cannot be computed, other than those of
    `save_released`, it is omitted; the results state this, and `warn` is called with a line.
    Returns the path of the certificate.

    - `oracle`: whether to write oracle_metrics.json too: metrics on private records, not for
      publication.
    - `further`: values that are added to the results.
    - `certificate`: the path that `save_released` returned for this run, if it was called.
    """
    attempts = Attempts(warn)
    texts: dict[str, str | bytes] = {} if certificate is not None else _released(training)
    steps: dict[str, Callable[[], str | None]] = {
        "proposal.json": lambda: training.proposal.to_json() + "\n",
        "plan.json": lambda: json_text(_plan(training)),
        CURVES: lambda: curves_text(curves(training)) if curves(training) else None,
        "report.html": lambda: training_page(training).html(),
    }
    if certificate is not None:  # again, now with the score of the later evaluation
        steps["model.json"] = lambda: model_text(released(training))
    if oracle:
        steps[ORACLE] = lambda: json_text(oracle_metrics(training))

    def values() -> str:
        final = dataclasses.replace(training, failures=(*training.failures, *attempts.failures))
        return json_text({**results(final, out), **(further or {}), "curves": curves(training)})

    steps["results.json"] = values
    for name, step in steps.items():
        text = attempts.attempt(f"computing {name}", step, None, private=name == ORACLE)
        if text is not None:
            texts[name] = text
    stated = certificate_text(training) if certificate is None else None
    force, obsolete = force or certificate is not None, (ORACLE, CURVES)
    added = write_folder(texts, out, force=force, obsolete=obsolete, certificate=stated)
    return certificate or added or out


def _released(training: Training) -> dict[str, str | bytes]:
    trace = io.BytesIO()
    np.savez_compressed(trace, models=training.models)
    texts: dict[str, str | bytes] = {"trace.npz": trace.getvalue()}
    if np.all(np.isfinite(training.model)):
        texts["model.json"] = model_text(released(training))
    return texts


def _plan(training: Training) -> dict[str, Any]:
    plan = plan_values(training.plan)
    if training.evaluation is not None:
        plan["evaluation"] = plan_values(training.evaluation.plan)
    if training.choice is not None:
        plan["choice"] = {"certificate": stated(training.choice)}
    return plan


def certificate_text(training: Training) -> str:
    """Return the certificate file of a finished run."""
    return certificate_file(
        training.plan,
        training.certificate,
        data=training.dataset.name,
        proposal=training.proposal.digest,
        algorithm=training.proposal.method.name,
    )


def write_folder(
    texts: Mapping[str, str | bytes],
    out: Path,
    *,
    force: bool,
    obsolete: tuple[str, ...] = (),
    certificate: str | None = None,
) -> Path | None:
    """Write texts, or bytes, by file name into the folder `out`; return the certificate's path.

    Files are written to a temporary folder (next to `out`, or inside it if it exists, since it may
    be a mount point) and then renamed: an interrupted or failed call changes nothing, except that
    it may have added the certificate (`add_certificate`). With `force` these files are replaced
    and the `obsolete` ones of an earlier report deleted; others stay.
    """
    check_out(out, force=force)
    target = out.resolve()
    with _as_input_error("written", out):
        target.parent.mkdir(parents=True, exist_ok=True)
        name = f".{target.name}.{os.getpid()}.part"
        part = target / name if target.exists() else target.with_name(name)
        try:
            part.mkdir(mode=0o700)  # readable by its owner alone, who decides what to publish
            for name, text in texts.items():
                content = text if isinstance(text, bytes) else text.encode()
                with open(part / name, "wb", opener=private_opener) as file:
                    file.write(content)
            added = None
            if certificate is not None:
                # into an existing folder before anything is replaced, else together with the rest
                added = add_certificate(certificate, target if target.exists() else part)
            _move(part, target, obsolete)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return None if added is None else out / added


def check_out(out: Path, *, force: bool) -> None:
    """Raise `InputError` unless a report can be written to the folder `out`.

    A file, an unwritable folder and, without `force`, a folder that is not empty are refused.
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
    # permissions are not enough: the file system may be read-only or full
    with _as_input_error("made", out), tempfile.TemporaryDirectory(dir=place, prefix=".taciturn"):
        pass


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


def add_certificate(text: str, folder: Path) -> str:
    """Write a certificate into a folder under the next number and return its file name.

    **Guarantee.** No existing file is opened for writing, renamed or deleted: the file is created
    by a system call that fails if the name is taken. So no certificate is lost if the process ends
    at any moment, or if two processes write at once.
    """
    part = folder / f".certificate.{os.getpid()}.part"
    try:
        with open(part, "w", encoding="utf-8", opener=private_opener) as file:
            file.write(text)
        number = max(numbered(folder), default=0) + 1
        while True:
            name = f"certificate-{number}.json"
            try:
                _link(part, folder / name, text)
                return name
            except FileExistsError:  # another process has just taken the number
                number += 1
    finally:
        part.unlink(missing_ok=True)


def numbered(folder: Path) -> dict[int, Path]:
    """Return the certificates in a folder by their number, in the order of the runs."""
    matches = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
    return dict(sorted((int(match[1]), path) for match, path in matches if match))


def _link(part: Path, file: Path, text: str) -> None:
    """Link a written file to its name; raise `FileExistsError` if the name is taken."""
    try:
        os.link(part, file)
    except FileExistsError:
        raise
    except OSError:  # no hard links here: the text is copied, and an interrupt may truncate it
        with open(file, "x", encoding="utf-8", opener=private_opener) as new:
            new.write(text)
