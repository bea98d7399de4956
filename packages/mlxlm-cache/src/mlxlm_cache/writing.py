"""Files that appear whole or not at all, and only where a file can be."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

TEMPORARY = ".writing-"
"""Names of unfinished files start so."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


class NotAFile(OSError):
    """What is at a path is a folder, a device, a pipe or a socket."""


def regular_file(path: str | os.PathLike[str]) -> Path:
    """Return the file that `path` stands for, there already or not: of a link, its target.

    Raises NotAFile where it is something else, and so neither to be replaced nor to be
    waited for; OSError for links that go round in circles.
    """
    with suppress(FileNotFoundError):
        mode = Path(path).stat().st_mode
        if not stat.S_ISREG(mode):
            kind = _KINDS.get(stat.S_IFMT(mode), "something else")
            raise NotAFile(f"{os.fspath(path)} is {kind}, not a file: name a file")
    return Path(os.path.realpath(path))


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Give a new file to write and read, that takes the place of `path` at the end.

    It is on the disk then. If the block raises, what was at `path` stays as it was. A link
    stays one, to what is written; permissions stay too. Raises NotAFile, before anything is
    written, and FileNotFoundError where the folder is missing.
    """
    target = regular_file(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{os.fspath(path)} cannot be written: no folder {target.parent}")
    temporary = target.with_name(f"{TEMPORARY}{token_hex(8)}-{target.name[-200:]}")
    try:
        with temporary.open("w+b") as file:
            with suppress(FileNotFoundError):
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        _sync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Make a rename in `folder` last, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
