"""Which process made a reservation, and whether it is gone for certain."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def this_process() -> dict[str, Any]:
    """Return what names this process on this machine, since its last start."""
    number = os.getpid()
    return {
        "host": socket.gethostname(),
        "boot": _text(_BOOT),
        "pid": number,
        "began": _began(number),
    }


def is_gone(process: Mapping[str, Any]) -> bool:
    """Whether a process of this machine has ended; False where that cannot be known.

    Nothing rests on it: a reservation is only returned while it was not opened, and a process that
    lives after all finds it returned.
    """
    here = this_process()
    if process.get("host") != here["host"] or not here["boot"]:
        return False
    if process.get("boot") != here["boot"]:
        return True
    return _began(int(process["pid"])) != process.get("began")


def _began(number: int) -> str | None:
    """Return when a process began, in clock ticks since the start of the machine."""
    text = _text(Path(f"/proc/{number}/stat"))
    # the name in brackets may hold anything; of what follows it, the start is the 20th word
    return text.rpartition(")")[2].split()[19] if text else None


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
