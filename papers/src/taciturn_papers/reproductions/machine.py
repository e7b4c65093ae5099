"""On what a reproduction was run, as far as its times and last digits may depend on it."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path

from taciturn.engine import versions


def machine() -> str:
    """Return processor, cores, memory, system and versions in one line; no name of the machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts = [
        _processor(),
        f"{cores} {'core' if cores == 1 else 'cores'}",
        *_memory(),
        f"{platform.system()} {platform.machine()}",
        f"Python {platform.python_version()}",
        *(f"{name} {number}" for name, number in versions().items() if name != "taciturn"),
    ]
    return ", ".join(parts)


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return " ".join(value.split())
    return platform.processor() or "unknown processor"


def _memory() -> list[str]:
    with suppress(OSError, ValueError, AttributeError):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return [f"{total / 2**30:.0f} GiB"]
    return []
