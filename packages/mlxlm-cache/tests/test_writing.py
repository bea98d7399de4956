import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from mlxlm_cache import NotAFile, regular_file, whole_file


def socket_at(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))  # an address has room for a short path only


SPECIAL: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a socket": socket_at,
}


def write(path: Path, content: bytes) -> None:
    with whole_file(path) as file:
        file.write(content)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_file_is_refused_and_stays(
    kind: str, linked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "target"
    SPECIAL[kind](path)
    before = path.lstat()
    if linked:
        path = tmp_path / "link"
        path.symlink_to("target")
    before_it = names(tmp_path)
    with pytest.raises(NotAFile, match=rf"{path.name} is {kind}, not a file: name a file"):
        write(path, b"new")
    assert names(tmp_path) == before_it
    after = (tmp_path / "target").lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)


@pytest.mark.parametrize("there", [False, True])
def test_a_link_stays_and_its_target_is_written(tmp_path: Path, there: bool) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    target = elsewhere / "file"
    if there:
        target.write_bytes(b"old")
    (tmp_path / "nearer").symlink_to("elsewhere/file")
    link = tmp_path / "link"
    link.symlink_to("nearer")
    assert regular_file(link) == target
    write(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "nearer").is_symlink()
    assert target.read_bytes() == b"new"
    assert not target.is_symlink()
    assert names(elsewhere) == ["file"]


def test_links_in_circles_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    with pytest.raises(OSError, match="one"):
        write(tmp_path / "one", b"new")
    assert names(tmp_path) == ["one", "other"]


def test_a_block_that_raises_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, b"old")

    def interrupted() -> None:
        with whole_file(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_permissions_stay(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"secret")
    path.chmod(0o600)
    write(path, b"new")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent/file cannot be written: no folder"):
        write(tmp_path / "absent" / "file", b"new")
