"""The portions of a long run, kept in a folder: an interrupted run goes on from them."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import tacit
import tacit_papers
from tacit.errors import InputError
from tacit.typing import HostArray

_SECONDS, _ENDED = "seconds of work", "ended at"


@dataclass(frozen=True)
class Kept:
    """Finished portions of one run; without a folder nothing is kept.

    A portion is named by its settings, and the folder by the run's settings and by every source
    file of both packages: what other code or another scale left behind is never taken up.
    """

    folder: Path | None = None

    @staticmethod
    def under(where: Path, run: object) -> Kept:
        """Return the portions under a folder of a run whose settings have `run` as their text.

        Raises
        ------
        InputError
            If the folder cannot be made.
        """
        folder = where / _digest(_sources(), repr(run))
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise InputError(f"{where} cannot be made ({reason}); name another folder") from None
        return Kept(folder)

    def portion(
        self, settings: object, compute: Callable[[], Mapping[str, HostArray]]
    ) -> dict[str, HostArray]:
        """Return the arrays of a portion, computed now or by the run that was interrupted."""
        if self.folder is None:
            return dict(compute())
        file = self.folder / f"{_digest(repr(settings))}.npz"
        if file.exists():
            with np.load(file, allow_pickle=False) as kept:
                return {name: kept[name] for name in kept if name not in {_SECONDS, _ENDED}}
        began = time.perf_counter()
        found = dict(compute())
        stored: dict[str, Any] = {**found, _ENDED: time.time()}
        stored[_SECONDS] = time.perf_counter() - began
        part = file.with_suffix(f".{os.getpid()}.part")
        with part.open("wb") as whole:
            np.savez(whole, **stored)
        part.replace(file)
        return found

    def seconds(self, *, before: float) -> float:
        """Return the seconds of work in portions that ended before a time (of `time.time`)."""
        total = 0.0
        for file in self.folder.glob("*.npz") if self.folder else ():
            with np.load(file, allow_pickle=False) as stored:
                total += float(stored[_SECONDS]) if stored[_ENDED] < before else 0.0
        return total


def _sources() -> str:
    """Return a digest of the code that a run depends on."""
    whole = hashlib.sha256(f"{version('jax')} {version('numpy')}".encode())
    for package in (tacit, tacit_papers):
        root = Path(str(package.__file__)).parent
        for file in sorted(root.rglob("*.py")):
            whole.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes())
    return whole.hexdigest()


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
