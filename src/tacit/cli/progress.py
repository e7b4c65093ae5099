"""The live bar of a run: rounds, elapsed and remaining time, on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def bar(rounds: int, *, shown: bool) -> Iterator[Callable[[Any], None] | None]:
    """Yield what is to be called with the number of finished rounds; None if no bar is shown.

    The calls may come in any order and from any thread, and after the bar is gone.
    """
    if not shown:
        yield None
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("rounds"),
        TimeElapsedColumn(), TextColumn("elapsed,"), TimeRemainingColumn(), TextColumn("remaining"),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), redirect_stdout=False) as progress:
        task = progress.add_task("preparing", total=rounds)

        def report(finished: Any) -> None:
            done = max(int(finished), int(progress.tasks[0].completed))
            doing = "training" if done < rounds else "measuring"
            progress.update(task, completed=done, description=doing)

        yield report
