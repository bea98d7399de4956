"""Getting much memory to a disk: past the system's cache of files, or steadily through it.

What goes through that cache is read again soon without the disk, but takes as much memory
once more, and on a virtual machine finding it may take longer than the disk does.
"""

import errno
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Thread
from typing import BinaryIO

DIRECT_FROM = 32 * 1024**2
"""Bytes from which going past the cache pays."""

_ALIGNED = 4096
_CHUNK = 8 * 1024**2
_FLUSH_EVERY = 0.02  # seconds


def write_runs(file: BinaryIO, runs: Sequence[memoryview], *, direct: bool) -> None:
    """Write pieces of memory, one after another, to a new file; it may not yet be on the disk.

    With `direct`, past the system's cache, where that is possible and there is enough.
    """
    if direct and sum(run.nbytes for run in runs) >= DIRECT_FROM and _write_direct(file, runs):
        return
    with _flushing(file):
        for run in runs:
            file.write(run)


def _write_direct(file: BinaryIO, runs: Sequence[memoryview]) -> bool:
    """Write past the system's cache; or return False, having written nothing, where that fails.

    Linux has such writes, and most of its file systems.
    """
    flag = getattr(os, "O_DIRECT", 0)
    if not flag:
        return False
    from fcntl import F_GETFL, F_SETFL, fcntl

    handle = file.fileno()
    usual = fcntl(handle, F_GETFL)
    try:
        fcntl(handle, F_SETFL, usual | flag)
        rest = _write_aligned(handle, runs)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        os.ftruncate(handle, 0)
        file.seek(0)
        return False
    finally:
        fcntl(handle, F_SETFL, usual)
    file.seek(0, os.SEEK_END)
    file.write(rest)
    return True


def _write_aligned(handle: int, runs: Iterable[memoryview]) -> bytes:
    """Write from buffers that lie as such writes want it: one is filled while one is written.

    Return the bytes at the end that do not make up a block, and are not written.
    """
    written: Future[None] | None = None
    rest = b""
    with ThreadPoolExecutor(1) as writer:
        for chunk in _chunks(runs, (mmap.mmap(-1, _CHUNK), mmap.mmap(-1, _CHUNK))):
            if written is not None:
                written.result()
            whole = len(chunk) // _ALIGNED * _ALIGNED
            rest = bytes(chunk[whole:])
            written = writer.submit(_write_all, handle, chunk[:whole])
    if written is not None:
        written.result()
    return rest


def _chunks(runs: Iterable[memoryview], buffers: Sequence[mmap.mmap]) -> Iterator[memoryview]:
    """Yield the bytes of `runs` in `buffers` by turns, each full but the last one."""
    turn, filled = 0, 0
    buffer = memoryview(buffers[turn])
    for run in runs:
        data = run.cast("B")
        while data:
            count = min(len(data), _CHUNK - filled)
            buffer[filled : filled + count] = data[:count]
            data, filled = data[count:], filled + count
            if filled == _CHUNK:
                yield buffer
                turn, filled = 1 - turn, 0
                buffer = memoryview(buffers[turn])
    if filled:
        yield buffer[:filled]


def _write_all(handle: int, data: memoryview) -> None:
    while data:
        data = data[os.write(handle, data) :]


@contextmanager
def _flushing(file: BinaryIO) -> Iterator[None]:
    """Have the disk take over what is written while more is: flushing at the end takes longer."""
    handle, done, failures = file.fileno(), Event(), []
    sync = getattr(os, "fdatasync", os.fsync)

    def flush() -> None:
        try:
            while not done.wait(_FLUSH_EVERY):
                sync(handle)
        except OSError as error:  # said once: the last flush would not know
            failures.append(error)

    thread = Thread(target=flush)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    if failures:
        raise failures[0]
