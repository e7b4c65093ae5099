"""A long run in portions: kept in a folder, so that an interrupted run goes on.

A portion follows from its settings, which hold every seed, so it is the same in whatever order.
"""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np

import taciturn
import taciturn_papers
from taciturn.errors import InputError
from taciturn.typing import HostArray
from taciturn_papers.reproductions.reproduction import Report

_SECONDS, _ENDED = "seconds of work", "ended at"

T = TypeVar("T")
U = TypeVar("U")
Arrays = Mapping[str, HostArray]
Results = Mapping[Hashable, Arrays]


class Portion(NamedTuple):
    """A portion of a run.

    Attributes
    ----------
    title
        As readers see it.
    settings
        All that its numbers follow from; what it is known and kept by.
    compute
        Its numbers.
    """

    title: str
    settings: Hashable
    compute: Callable[[], Arrays]


@dataclass(frozen=True)
class Work(Generic[T]):
    """What is to be computed, and what is made of it.

    Attributes
    ----------
    portions
        They do not depend on one another.
    whole
        From the results of these portions, by their settings.
    """

    portions: tuple[Portion, ...]
    whole: Callable[[Results], T]

    @staticmethod
    def of(portion: Portion, whole: Callable[[Arrays], U]) -> Work[U]:
        """Return the work of one portion."""
        return Work((portion,), lambda found: whole(found[portion.settings]))


def together(works: Sequence[Work[T]]) -> Work[list[T]]:
    """Return several works as one."""
    portions = tuple(portion for work in works for portion in work.portions)
    return Work(portions, lambda found: [work.whole(found) for work in works])


def arrays_of(record: Any) -> dict[str, HostArray]:
    """Return the fields of a dataclass of numbers, words, sequences of numbers and arrays."""
    return {each.name: np.asarray(getattr(record, each.name)) for each in fields(record)}


def record_of(kind: Callable[..., T], found: Arrays) -> T:
    """Return the dataclass of which `arrays_of` returned the fields."""
    values = {}
    for each in fields(cast(Any, kind)):
        value: Any = found[each.name]
        plain = str(each.type).startswith(("str", "int", "float", "tuple"))
        value = value.tolist() if plain else value
        values[each.name] = tuple(value) if isinstance(value, list) else value
    return kind(**values)


def _quiet(line: str) -> None:
    del line


@dataclass(frozen=True)
class Portions:
    """How the portions of one run are computed.

    Attributes
    ----------
    report
        Called with a line of text before every portion that is computed.
    folder
        Where they are kept; None: nowhere. A portion is named by its settings, and the folder by
        the run's settings and by every source file of both packages: what other code or another
        scale left behind is never taken up.
    """

    report: Report = _quiet
    folder: Path | None = None
    _began: float = field(default_factory=time.time, repr=False)

    @staticmethod
    def of(run: Hashable, report: Report, *, folder: Path | None = None) -> Portions:
        """Return those of a run whose settings have `run` as their text.

        Parameters
        ----------
        folder
            Under which they are kept, in a folder of this run's.

        Raises
        ------
        InputError
            If the folder cannot be made.
        """
        if folder is None:
            return Portions(report)
        kept = folder / _digest(sources(), repr(run))
        try:
            kept.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise InputError(f"{folder} cannot be made ({reason}); name another folder") from None
        return Portions(report, kept)

    def done(self, work: Work[T]) -> T:
        """Return what is made of all portions, computed now or by the run that was interrupted."""
        portions = {portion.settings: portion for portion in work.portions}
        found = {
            settings: self._found(portion, f"{portion.title} ({number} of {len(portions)})")
            for number, (settings, portion) in enumerate(portions.items(), 1)
        }
        return work.whole(found)

    def _found(self, portion: Portion, title: str) -> Arrays:
        file = self.folder and self.folder / f"{_digest(repr(portion.settings))}.npz"
        if file and file.exists():
            kept = _unpacked(file.read_bytes())
            return {name: kept[name] for name in kept if name not in {_SECONDS, _ENDED}}
        self.report(title)
        began = time.perf_counter()
        found = dict(portion.compute())
        if file:
            times = {_SECONDS: np.array(time.perf_counter() - began), _ENDED: np.array(time.time())}
            part = file.with_suffix(f".{os.getpid()}.part")
            part.write_bytes(_packed(found | times))
            part.replace(file)
        return found

    def seconds(self) -> float:
        """Return the seconds so far: since these began, and of portions that were kept before."""
        total = time.time() - self._began
        for file in self.folder.glob("*.npz") if self.folder else ():
            stored = _unpacked(file.read_bytes())
            total += float(stored[_SECONDS]) if stored[_ENDED] < self._began else 0.0
        return total


def _packed(found: dict[str, Any]) -> bytes:
    content = io.BytesIO()
    np.savez(content, **found)
    return content.getvalue()


def _unpacked(content: bytes) -> dict[str, HostArray]:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays}


def sources() -> str:
    """Return a digest of the code that a run depends on."""
    whole = hashlib.sha256(f"{version('jax')} {version('numpy')}".encode())
    for package in (taciturn, taciturn_papers):
        root = Path(str(package.__file__)).parent
        for file in sorted(root.rglob("*.py")):
            whole.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes())
    return whole.hexdigest()


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
