r"""Compiled programs, kept between runs of the command in the user's cache folder.

A program is what XLA makes of a function and of the *shapes* of its arguments. Records, keys and
answers are arguments of every program here, never constants inside one, so what is kept follows
from public facts: the plan, and how many records and columns there are. A function that closes over
an array has it as a constant, and the file would hold it: none that is compiled here may.

JAX writes its files in place, so that a process that is killed, or a disk that is full, leaves half
a file, and another process reads it. Each process therefore has a folder of its own, with links to
what is kept, and adds what is new and whole at its end, by a rename. The name that a file is kept
under ends with a sum over its bytes, and one that was spoilt since is removed.

A kept program is code that runs. The folder must be this user's and writable by nobody else; it is
for this version of tacit and of JAX and for this kind of processor alone.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import os
import platform
import shutil
import stat
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path

import tacit

FOLDER = "TACIT_PROGRAMS_DIR"
_SETTING = "JAX_COMPILATION_CACHE_DIR"
_SETTINGS = ("JAX_COMPILATION_CACHE", "JAX_PERSISTENT_CACHE")
# no other folder is ever removed: the user may have named one that holds something else
_KEPT, _RUNNING = "tacit-programs-", "tacit-running-"
_ZSTANDARD = bytes.fromhex("28b52ffd")
_DAY, _MOST_BYTES = 24 * 3600.0, 2**28


def keep_programs() -> Callable[[], None]:
    """Let JAX, which is not imported yet, find programs of earlier runs and keep new ones.

    Returns what keeps the new ones. It is called at an orderly exit, and before any other one.

    TACIT_PROGRAMS_DIR names another folder; empty, nothing is kept. Nothing is kept either where
    the folder cannot be made, is somebody else's or open to others, or where the user has set JAX's
    own cache.
    """
    theirs = any(name.startswith(_SETTINGS) for name in os.environ)
    if "jax" in sys.modules or theirs or os.environ.get(FOLDER) == "":
        return _nothing
    with suppress(OSError, RuntimeError):  # also where nobody has a home
        kept = _folder()
        own = Path(tempfile.mkdtemp(prefix=_RUNNING, dir=kept.parent))
        known: set[str] = set()
        give_back = partial(_give_back, own, kept, known)
        atexit.register(give_back)
        known |= _linked(kept, own)
        os.environ |= {
            _SETTING: str(own),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
            "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",  # or names depend on the folder's
        }
        return give_back
    return _nothing


def _nothing() -> None:
    pass


def _folder() -> Path:
    """Return the folder of the programs for this tacit, JAX and processor, made if need be."""
    place = Path(os.environ.get(FOLDER) or _user_cache() / "tacit" / "programs")
    kept = place / f"{_KEPT}{_kind()}"
    place.parent.mkdir(parents=True, exist_ok=True)
    for folder in (place, kept):
        folder.mkdir(mode=0o700, exist_ok=True)  # whatever a umask lets others do
        _check_private(folder)
    _clear(place, kept)
    return kept


def _user_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _kind() -> str:
    """Return a name that differs where a program might not run, or might be another one."""
    features = platform.processor()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features += next((line for line in lines if line.startswith(("flags", "Features"))), "")
    settings = [name for name in os.environ if name.startswith("XLA_")]
    parts = [
        tacit.__version__,
        version("jax"),
        version("jaxlib"),
        platform.machine(),
        features,
        *(f"{name}={os.environ[name]}" for name in sorted(settings)),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _check_private(folder: Path) -> None:
    """Raise `OSError` unless the folder is this user's, and nobody else may write to it."""
    facts = folder.stat()
    others = stat.S_IWGRP | stat.S_IWOTH
    if hasattr(os, "getuid") and (facts.st_uid != os.getuid() or facts.st_mode & others):
        raise PermissionError(folder)


def _clear(place: Path, kept: Path) -> None:
    """Take away folders of processes that were killed, other versions unused, and an excess."""
    for folder in place.iterdir():
        days = {_RUNNING: 1, _KEPT: 30}.get(folder.name[: folder.name.rfind("-") + 1])
        with suppress(OSError):
            facts = folder.lstat()
            old = days is not None and time.time() - facts.st_mtime > days * _DAY
            if old and stat.S_ISDIR(facts.st_mode) and folder != kept:
                shutil.rmtree(folder, ignore_errors=True)
    if sum(one.lstat().st_size for one in kept.iterdir()) > _MOST_BYTES:
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(mode=0o700)
    os.utime(kept)


def _linked(kept: Path, own: Path) -> set[str]:
    """Let a process find what is kept; return the names under which it does."""
    names = set()
    for one in kept.iterdir():
        name, _, check = one.name.rpartition(".")
        with suppress(OSError):
            whole = stat.S_ISREG(one.lstat().st_mode) and _sum(one) == check
            if not whole or name in names:  # or kept by two processes at once
                one.unlink()
                continue
            try:
                os.link(one, own / name)
            except OSError:  # a file system without links
                shutil.copyfile(one, own / name)
            names.add(name)
    return names


def _give_back(own: Path, kept: Path, known: Collection[str]) -> None:
    """Keep what is new, each file whole."""
    with suppress(OSError):
        present = {one.stem for one in kept.iterdir()} | set(known)
        for one in own.iterdir():
            if one.name not in present and _whole(one.read_bytes()):
                os.replace(one, kept / f"{one.name}.{_sum(one)}")
    shutil.rmtree(own, ignore_errors=True)


def _sum(file: Path) -> str:
    return f"{zlib.crc32(file.read_bytes()):08x}"


def _whole(program: bytes) -> bool:
    """Return whether what JAX compressed is there to its end."""
    try:
        if program.startswith(_ZSTANDARD):  # which JAX takes where it is installed
            importlib.import_module("zstandard").ZstdDecompressor().decompress(program)
        else:
            zlib.decompress(program)
    except Exception:  # whatever it is: what cannot be read now is not to be read later
        return False
    return True
