r"""Compiled programs, kept between runs of the command in the user's cache folder.

A program is what XLA makes of a function and of the *shapes* of its arguments. Records, keys and
answers are arguments of every program here, never constants inside one, so what is kept follows
from public facts: the plan, and how many records and columns there are. A function that closes over
an array has it as a constant, and the file would hold it: none that is compiled here may.

JAX writes its files in place, so that a process that is killed leaves half a file, and another
reads it. Each process therefore has a folder of its own, with links to what is kept, and adds what
is new at its end, by a rename.

A kept program is code that runs. The folder must be this user's and writable by nobody else; it is
for this version of tacit and of JAX and for this kind of processor alone.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import platform
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path

import tacit

FOLDER = "TACIT_PROGRAMS_DIR"
_SETTING = "JAX_COMPILATION_CACHE_DIR"
_RUNNING = "running-"
_DAY, _MOST_BYTES = 24 * 3600.0, 2**28


def keep_programs() -> Callable[[], None]:
    """Let JAX, which is not imported yet, find programs of earlier runs and keep new ones.

    Returns what keeps the new ones. It is called at an orderly exit, and before any other one.

    TACIT_PROGRAMS_DIR names another folder; empty, nothing is kept. Nothing is kept either where
    the folder cannot be made, is somebody else's or open to others, or where the user has set JAX's
    own cache.
    """
    if "jax" in sys.modules or _SETTING in os.environ or os.environ.get(FOLDER) == "":
        return _nothing
    with suppress(OSError):
        kept = _folder()
        own = Path(tempfile.mkdtemp(prefix=_RUNNING, dir=kept.parent))
        _link(kept, own)
        give_back = partial(_give_back, own, kept)
        atexit.register(give_back)
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
    kept = place / _kind()
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in (place, kept):
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
        days = 1 if folder.name.startswith(_RUNNING) else 30
        if folder != kept and time.time() - folder.stat().st_mtime > days * _DAY:
            shutil.rmtree(folder, ignore_errors=True)
    if sum(one.stat().st_size for one in os.scandir(kept)) > _MOST_BYTES:
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(mode=0o700)
    os.utime(kept)


def _link(kept: Path, own: Path) -> None:
    for one in os.scandir(kept):
        if one.stat().st_size:  # a file that a loss of power left empty would be tried again
            os.link(one.path, own / one.name)


def _give_back(own: Path, kept: Path) -> None:
    """Keep what is new, each file whole; an existing one is as good."""
    with suppress(OSError):
        for one in os.scandir(own):
            if one.stat().st_nlink == 1 and one.stat().st_size:
                os.replace(one.path, kept / one.name)
    shutil.rmtree(own, ignore_errors=True)
