"""What a person watching sees: everything here goes to stderr."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

FENCE = "=" * 10


def say(text: str = "") -> None:
    print(text, file=sys.stderr, flush=True)


def on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def prefill_progress(step: int) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback (tokens done, tokens in all) that shows a bar on a terminal.

    Only for prompts longer than one prefill step; the bar is gone when the prompt is read.
    """
    bar = _Bar(step)
    try:
        yield bar.update
    finally:
        bar.close()


class _Bar:
    def __init__(self, step: int) -> None:
        self._step = step
        self._progress: Progress | None = None

    def update(self, done: int, total: int) -> None:
        if total <= self._step or not on_terminal():
            return
        if done >= total:
            self.close()
            return
        if self._progress is None:
            self._progress = _bar()
            self._task = self._progress.add_task("Reading the prompt", total=total)
        self._progress.update(self._task, completed=done)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def _bar() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    progress.start()
    return progress
