"""Original files of public data sets: located on this machine or downloaded, and verified."""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pooch

from taciturn.errors import DataError

DATA_DIR = "TACITURN_DATA_DIR"
# seconds to connect and between two packets: without network it fails soon, and a slow download is
# not cut off
TIMEOUT = (3.0, 10.0)


@dataclass(frozen=True)
class RemoteFile:
    """A published file: its folder and name on disk, its address and its SHA-256 digest (hex)."""

    folder: str
    name: str
    url: str
    sha256: str


def digest(content: bytes) -> str:
    """Return the SHA-256 digest of `content` in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _roots(cache: Path | None) -> list[Path]:
    named = os.environ.get(DATA_DIR, "")
    last = Path(pooch.os_cache("taciturn")) if cache is None else cache
    return [*([Path(named).expanduser()] if named else []), last]


def located(file: RemoteFile, *, cache: Path | None = None) -> Path | None:
    """Return the path of the file on this machine, or None, without verification.

    It searches the folder that the environment variable TACITURN_DATA_DIR names, if set, then
    `cache` (None: the user's cache folder).
    """
    paths = (root / file.folder / file.name for root in _roots(cache))
    return next((path for path in paths if path.is_file()), None)


def contents(file: RemoteFile, *, cache: Path | None = None) -> bytes:
    """Return the verified bytes of a published file, downloaded into `cache` if it is missing.

    Raises `DataError` if a download fails, or a file is not the pinned one: such a download is
    discarded, an existing file is not deleted.
    """
    path = located(file, cache=cache)
    if path is not None:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DataError(
                f"{path} cannot be read ({type(error).__name__}); make it readable or delete it"
            ) from error
        _check(content, file, str(path), f"delete it or put the original from {file.url} there")
        return content
    by_hand = (
        f"get it from {file.url}, set {DATA_DIR} to a folder <dir> and put the file at "
        f"<dir>/{file.folder}/{file.name}"
    )
    buffer = io.BytesIO()
    try:
        pooch.HTTPDownloader(timeout=TIMEOUT)(file.url, buffer, None)
    # every error of requests is an OSError; an invalid address may raise a ValueError
    except (OSError, ValueError) as error:
        raise DataError(
            f"{file.name} could not be downloaded ({type(error).__name__}); {by_hand}"
        ) from error
    content = buffer.getvalue()
    _check(content, file, f"{file.name} as downloaded", by_hand)
    _write(content, _roots(cache)[-1] / file.folder / file.name)
    return content


def _check(content: bytes, file: RemoteFile, what: str, remedy: str) -> None:
    actual = digest(content)
    if actual != file.sha256:
        raise DataError(
            f"{what} is not the original file ({len(content)} bytes): expected sha256 "
            f"{file.sha256[:12]}, found {actual[:12]}; {remedy}"
        )


def _write(content: bytes, path: Path) -> None:
    """Write a file atomically."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent) as temporary:
            part = Path(temporary) / path.name
            part.write_bytes(content)
            part.replace(path)
    except OSError as error:
        raise DataError(
            f"{path} cannot be written ({type(error).__name__}); make room or make it writable, "
            f"or set {DATA_DIR} to a folder that holds {path.parent.name}/{path.name}"
        ) from error
