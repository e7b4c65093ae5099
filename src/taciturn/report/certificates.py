"""The certificates of all runs that were reported in one folder; none is ever replaced.

The privacy losses of runs on the same records add up, whichever of their models is kept. So the
owner of the records needs the certificate of every run, also of those whose report was replaced.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from taciturn.budget import private_opener

FIRST_CERTIFICATE = "certificate-1.json"
_NAME = re.compile(r"certificate-(\d+)\.json")


def add_certificate(text: str, folder: Path) -> str:
    """Write a certificate into a folder under the next number and return the name of its file.

    Notes
    -----
    **Guarantee.** No file that exists is opened for writing, renamed or deleted: a file is created
    under a name that must be free, by a call of the operating system that fails otherwise. So no
    certificate is lost if the process ends at any moment, or if two write at once.
    """
    part = folder / f".certificate.{os.getpid()}.part"
    try:
        with open(part, "w", encoding="utf-8", opener=private_opener) as file:
            file.write(text)
        number = max(numbered(folder), default=0) + 1
        while True:
            name = f"certificate-{number}.json"
            try:
                _named(part, folder / name, text)
            except FileExistsError:  # another process took the number meanwhile
                number += 1
            else:
                return name
    finally:
        part.unlink(missing_ok=True)


def numbered(folder: Path) -> dict[int, Path]:
    """Return the certificates in a folder by their number, in the order of the runs."""
    matches = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
    return dict(sorted((int(match[1]), path) for match, path in matches if match))


def _named(part: Path, file: Path, text: str) -> None:
    """Give a written file its name; raise `FileExistsError` if the name is taken."""
    try:
        os.link(part, file)
    except FileExistsError:
        raise
    except OSError:  # a file system without links; an interrupt may leave the new file cut short
        with open(file, "x", encoding="utf-8", opener=private_opener) as new:
            new.write(text)
