"""Long computations: Ctrl-C stops them at once, a bar shows the rounds and the time."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

_T = TypeVar("_T")
_WORKER = "tacit computation"


def interruptible(work: Callable[[], _T]) -> _T:
    """Return `work()`, computed on another thread while this one waits for signals.

    A compiled program handles no signal until it ends, and a signal that arrives in a callback of
    the garbage collector is lost; a thread that waits receives them all. An exception of `work` is
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


@contextmanager
def bar(rounds: int, *, shown: bool) -> Iterator[Callable[[Any], None] | None]:
    """Yield a function of the number of finished rounds; None if no bar is shown.

    The calls may come in any order and from any thread, and after the bar is gone.
    """
    if not shown:
        yield None
        return
    from rich import progress as rich_progress  # noqa: PLC0415 - start-up
    from rich.console import Console  # noqa: PLC0415 - start-up

    columns = (
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TextColumn("rounds"),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TextColumn("elapsed,"),
        rich_progress.TimeRemainingColumn(),
        rich_progress.TextColumn("remaining"),
    )
    console = Console(stderr=True)
    with rich_progress.Progress(*columns, console=console, redirect_stdout=False) as progress:
        task = progress.add_task("preparing", total=rounds)

        def report(finished: Any) -> None:
            done = max(int(finished), int(progress.tasks[0].completed))
            doing = "training" if done < rounds else "measuring"
            progress.update(task, completed=done, description=doing)

        yield report
