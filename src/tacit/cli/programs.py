r"""Compiled programs, kept between runs of the command by JAX, in the user's cache folder.

A program is what XLA makes of a function and of the *shapes* of its arguments. Records, keys and
answers are arguments of every program here, never constants inside one, so what is kept follows
from public facts: the plan, and how many records and columns there are. A function that closes over
an array has it as a constant, and the file would hold it: none that is compiled here may.

A kept program is code that runs. The folder must be this user's and writable by nobody else; it is
for this kind of processor alone. JAX compiles anew what it cannot read, such as half a file that a
killed process left.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path

FOLDER = "TACIT_PROGRAMS_DIR"
_SETTINGS = ("JAX_COMPILATION_CACHE", "JAX_PERSISTENT_CACHE")
_MONTH, _MOST_BYTES = 30 * 24 * 3600.0, 2**28


def keep_programs() -> None:
    """Let JAX, which is not imported yet, find programs of earlier runs and keep new ones.

    TACIT_PROGRAMS_DIR names another folder; empty, nothing is kept. Nothing is kept either where
    the folder cannot be made, is somebody else's or open to others, or where the user has set JAX's
    own cache.
    """
    theirs = any(name.startswith(_SETTINGS) for name in os.environ)
    if "jax" in sys.modules or theirs or os.environ.get(FOLDER) == "":
        return
    with suppress(OSError, RuntimeError):  # also where nobody has a home
        os.environ |= {
            "JAX_COMPILATION_CACHE_DIR": str(_folder()),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
            "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",  # or names depend on the folder's
        }
        warnings.filterwarnings("ignore", message="Error (read|writ)ing persistent compilation")


def _folder() -> Path:
    """Return the folder of the programs for this kind of processor, made if need be."""
    place = Path(os.environ.get(FOLDER) or _user_cache() / "tacit" / "programs")
    kept = place / f"tacit-programs-{_processor()}"
    place.parent.mkdir(parents=True, exist_ok=True)
    for folder in (place, kept):
        folder.mkdir(mode=0o700, exist_ok=True)  # whatever a umask lets others do
        facts = folder.stat()
        others = stat.S_IWGRP | stat.S_IWOTH
        if hasattr(os, "getuid") and (facts.st_uid != os.getuid() or facts.st_mode & others):
            raise PermissionError(folder)
    files = [(file, file.lstat()) for file in kept.iterdir()]
    full = sum(facts.st_size for _, facts in files) > _MOST_BYTES
    for file, facts in files:
        if full or time.time() - facts.st_mtime > _MONTH:
            file.unlink(missing_ok=True)
    return kept


def _user_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _processor() -> str:
    """Return a name that differs where a program might not run: JAX's own names say no more."""
    features = f"{platform.machine()} {platform.processor()}"
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features += next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return hashlib.sha256(features.encode()).hexdigest()[:16]
