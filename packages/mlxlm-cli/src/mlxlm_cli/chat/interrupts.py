"""Ctrl-C while a model answers: the first press asks to stop, the second insists."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Whether the user has asked the answer to stop. Call it to find out."""

    def __init__(self) -> None:
        self._asked = False

    def __call__(self) -> bool:
        return self._asked

    def ask(self, signum: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Turn Ctrl-C into a request for as long as the block runs.

    An exception could leave some layers' caches a token ahead of others; a request is
    looked at between tokens, when they agree. Main thread only.
    """
    stop = Stop()
    before = signal.signal(signal.SIGINT, stop.ask)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
