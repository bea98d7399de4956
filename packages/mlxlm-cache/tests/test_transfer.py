import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlxlm_cache import transfer
from mlxlm_cache.transfer import write_runs


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "DIRECT_FROM", 10_000)
    monkeypatch.setattr(transfer, "_CHUNK", 8192)


def runs(*sizes: int) -> list[memoryview]:
    return [memoryview(os.urandom(size)) for size in sizes]


def written(path: Path, pieces: list[memoryview], *, direct: bool) -> bytes:
    with path.open("w+b") as file:
        flags = fcntl.fcntl(file.fileno(), fcntl.F_GETFL)
        write_runs(file, pieces, direct=direct)
        assert fcntl.fcntl(file.fileno(), fcntl.F_GETFL) == flags
    return path.read_bytes()


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize(
    "sizes", [(0,), (1, 5), (8192,), (8192, 8192), (5000, 30_000, 1), (1, 20_479), (9000, 9000)]
)
def test_pieces_of_any_size_are_written(
    tmp_path: Path, sizes: tuple[int, ...], direct: bool
) -> None:
    pieces = runs(*sizes)
    assert written(tmp_path / "file", pieces, direct=direct) == b"".join(pieces)


@pytest.mark.parametrize("when", ["asked", "written to"])
def test_a_file_system_that_is_always_cached_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    usual = fcntl.fcntl

    def refuse_flag(handle: int, command: int, argument: int = 0) -> Any:
        if command == fcntl.F_SETFL and argument & getattr(os, "O_DIRECT", 0):
            raise OSError(errno.EINVAL, "no such thing here")
        return usual(handle, command, argument)

    def refuse_write(*_: Any) -> int:
        raise OSError(errno.EINVAL, "nor here")

    if when == "asked":
        monkeypatch.setattr(fcntl, "fcntl", refuse_flag)
    else:
        monkeypatch.setattr(os, "write", refuse_write)
    pieces = runs(30_000, 1)
    assert written(tmp_path / "file", pieces, direct=True) == b"".join(pieces)


@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="not on this system")
def test_a_disk_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "write", full)
    with (tmp_path / "file").open("w+b") as file, pytest.raises(OSError, match="no space left"):
        write_runs(file, runs(50_000), direct=True)


def test_a_flush_that_fails_while_writing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = threading.Event()

    def fail(_: int) -> None:
        failed.set()
        raise OSError("the disk is broken")

    monkeypatch.setattr(os, "fdatasync", fail, raising=False)

    def slowly() -> Iterator[memoryview]:
        yield from runs(4)
        assert failed.wait(10)

    slow: Any = slowly()
    with (tmp_path / "file").open("w+b") as file, pytest.raises(OSError, match="is broken"):
        write_runs(file, slow, direct=False)
