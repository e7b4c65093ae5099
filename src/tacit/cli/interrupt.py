"""Long computations that Ctrl-C stops at once."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")
_WORKER = "tacit computation"


def interruptible(work: Callable[[], _T]) -> _T:
    """Return `work()`, computed on another thread while this one waits for signals.

    A compiled program does not look at signals until it has ended, and a signal that arrives in
    a callback of the garbage collector is lost; waiting hears them all. What `work` raises is
    raised here.
    """
    future: Future[_T] = Future()

    def compute() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # handed over, whatever it is
            future.set_exception(error)

    threading.Thread(target=compute, name=_WORKER, daemon=True).start()
    return future.result()


def leave_if_busy(code: int) -> None:
    """End the process at once if an abandoned computation is still under way.

    An orderly exit would wait for it, or crash in it.
    """
    if any(thread.name == _WORKER for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
