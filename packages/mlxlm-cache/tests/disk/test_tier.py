import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import (
    ArraysCache,
    CacheMismatch,
    DiskPromptCache,
    KVCache,
    LRUPromptCache,
    RotatingKVCache,
)
from mlxlm_cache.disk.store import Store
from mlxlm_cache.tensorfile import Draft
from mlxlm_cache.writing import TEMPORARY

MODEL = ("org/name", "revision", None, 8)

Helper = Callable[..., Any]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[DiskPromptCache]:
    with DiskPromptCache(tmp_path, 2**30, min_tokens=1) as made:
        yield made


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("prompt-*.safetensors"))


def test_what_is_written_is_found_by_another_process_later(
    tmp_path: Path, stack: Helper, holds: Helper
) -> None:
    prompt = list(range(100))
    with DiskPromptCache(tmp_path, 2**30) as small:
        assert not small.insert_cache(MODEL, prompt, stack(prompt))  # not worth a file
    with DiskPromptCache(tmp_path, 2**30, min_tokens=10) as disk:
        assert disk.insert_cache(MODEL, prompt, stack(prompt))
    later = DiskPromptCache(tmp_path, 2**30, min_tokens=10)
    for tokens, length in (
        ([*prompt, 7], 100),
        (prompt, 99),
        ([*prompt[:50], 7, 8], 50),
    ):
        cache, rest = later.fetch_nearest_cache(MODEL, tokens)
        assert holds(cache, tokens[:length])
        assert rest == tokens[length:]
    assert later.fetch_nearest_cache(MODEL, prompt, more_than=90) == (None, prompt)
    assert later.fetch_nearest_cache(MODEL, [*prompt[:9], 7]) == (None, [*prompt[:9], 7])
    assert later.fetch_nearest_cache("other", prompt) == (None, prompt)


def test_the_lru_finds_on_disk_what_it_no_longer_has(
    disk: DiskPromptCache, stack: Helper, holds: Helper, feed: Helper
) -> None:
    lru = LRUPromptCache(max_size=4, max_bytes=2**30, disk=disk)
    prompt = list(range(100))
    lru.insert_cache(MODEL, prompt, stack(prompt))
    disk.flush()
    lru.clear()
    for _ in range(2):
        cache, rest = lru.fetch_nearest_cache(MODEL, [*prompt, 7, 8])
        assert holds(cache, prompt)
        feed(cache, rest)
        assert holds(cache, [*prompt, 7, 8])
        assert len(lru) == 1
    tiny = LRUPromptCache(max_bytes=1, disk=disk)
    cache, rest = tiny.fetch_nearest_cache(MODEL, [*prompt[:50], 7])
    assert holds(cache, prompt[:50])
    assert len(tiny) == 0


def test_the_caller_may_go_on_while_a_cache_waits(
    disk: DiskPromptCache,
    stack: Helper,
    holds: Helper,
    feed: Helper,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go = threading.Event()
    write = Draft.write
    monkeypatch.setattr(Draft, "write", lambda *a: (go.wait(10), write(*a)))
    cache = stack(range(10))
    disk.insert_cache(MODEL, list(range(10)), cache)
    for c in cache:
        c.trim(5)
    feed(cache, range(90, 99))
    go.set()
    disk.flush()
    assert holds(disk.fetch_nearest_cache(MODEL, range(11))[0], range(10))


def test_an_entry_stands_in_for_its_prefixes(
    disk: DiskPromptCache, tmp_path: Path, stack: Helper
) -> None:
    for n in (10, 20, 15, 20):
        disk.insert_cache(MODEL, list(range(n)), stack(range(n)))
        disk.flush()
    assert len(files(tmp_path)) == 1
    assert disk.fetch_nearest_cache(MODEL, range(30))[1] == list(range(20, 30))


def test_what_cannot_be_cut_keeps_its_prefixes(
    disk: DiskPromptCache, tmp_path: Path, stack: Helper
) -> None:
    def window() -> RotatingKVCache:
        return RotatingKVCache(8)

    for n in (6, 20):
        disk.insert_cache(MODEL, list(range(n)), stack(range(n), window))
        disk.flush()
    assert len(files(tmp_path)) == 2
    assert disk.fetch_nearest_cache(MODEL, range(20))[1] == list(range(6, 20))
    assert disk.fetch_nearest_cache(MODEL, range(21))[1] == [20]


def test_states_to_go_back_to_are_not_on_disk(disk: DiskPromptCache, tmp_path: Path) -> None:
    cache = ArraysCache(1)
    cache.checkpoint(4)
    for token in range(6):
        cache[0] = mx.full((1, 8), token)
        cache.advance(1)
    assert cache.capabilities.trim == 4
    disk.insert_cache(MODEL, list(range(6)), [cache])
    disk.flush()
    assert disk.fetch_nearest_cache(MODEL, range(6))[0] is None
    fetched, rest = disk.fetch_nearest_cache(MODEL, range(7))
    assert fetched is not None
    assert (fetched[0].offset, rest) == (6, [6])
    assert len(files(tmp_path)) == 1


def test_the_oldest_that_wait_are_given_up(
    tmp_path: Path, stack: Helper, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    write = Draft.write
    monkeypatch.setattr(Draft, "write", lambda *a: (go.wait(10), write(*a)))
    with DiskPromptCache(tmp_path, 2**30, min_tokens=1, pending=2) as disk:
        for i in range(6):
            disk.insert_cache(MODEL, [i, 1], stack([i, 1]))
            time.sleep(0.02)  # the first is being written from here on
        go.set()
    kept = [i for i in range(6) if disk.fetch_nearest_cache(MODEL, [i, 1, 2])[0] is not None]
    assert kept == [0, 4, 5]
    with pytest.raises(RuntimeError, match="closed"):
        disk.insert_cache(MODEL, [9], stack([9]))


def test_the_bound_holds_and_the_least_recently_used_go_first(
    tmp_path: Path, stack: Helper
) -> None:
    with DiskPromptCache(tmp_path, 2**30, min_tokens=1) as disk:
        disk.insert_cache(MODEL, [0, 1], stack([0, 1]))
    (one,) = files(tmp_path)
    bound = 3 * one.stat().st_size + 100
    other = tmp_path / "model.safetensors"
    other.write_bytes(b"x" * bound)
    with DiskPromptCache(tmp_path, bound, min_tokens=1) as disk:
        for i in range(1, 3):
            disk.insert_cache(MODEL, [i, 1], stack([i, 1]))
            disk.flush()
        assert disk.fetch_nearest_cache(MODEL, [0, 1, 2])[0] is not None
        disk.insert_cache(MODEL, [3, 1], stack([3, 1]))
        disk.insert_cache(MODEL, list(range(5000)), stack(range(5000)))
    assert sum(f.stat().st_size for f in files(tmp_path)) <= bound
    kept = [i for i in range(4) if disk.fetch_nearest_cache(MODEL, [i, 1, 2])[0] is not None]
    assert kept == [0, 2, 3]
    assert other.exists()  # what is not ours stays


@pytest.mark.parametrize("damage", ["cut", "changed", "emptied", "other tokens"])
def test_a_damaged_file_is_skipped_with_a_warning_and_removed(
    tmp_path: Path, stack: Helper, holds: Helper, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    with DiskPromptCache(tmp_path, 2**30, min_tokens=1) as disk:
        disk.insert_cache(MODEL, [1, 2], stack([1, 2]))
        disk.flush()
        (shorter,) = files(tmp_path)
        disk.insert_cache(MODEL, [1, 3, 3], stack([1, 3, 3]))
    (file,) = {*files(tmp_path)} - {shorter}
    whole = file.read_bytes()
    if damage == "cut":
        file.write_bytes(whole[:-1])
    elif damage == "changed":
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    elif damage == "emptied":
        file.write_bytes(b"")
    else:
        file.write_bytes(whole.replace(b'"1,3,3"', b'"1,3,4"'))
    later = DiskPromptCache(tmp_path, 2**30, min_tokens=1)
    tokens = [1, 3, 4 if damage == "other tokens" else 3, 5]
    cache, rest = later.fetch_nearest_cache(MODEL, tokens)
    assert holds(cache, [1])
    assert rest == tokens[1:]
    assert str(file) in caplog.text
    assert files(tmp_path) == [shorter]


def test_R17_a_cache_of_other_tokens_is_refused(disk: DiskPromptCache, stack: Helper) -> None:
    with pytest.raises(CacheMismatch):
        disk.insert_cache(MODEL, [1, 2], stack([1]))
    with pytest.raises(TypeError, match="named by strings"):
        disk.insert_cache(KVCache, [1], stack([1]))


def test_a_disk_that_fails_is_a_warning(
    disk: DiskPromptCache,
    stack: Helper,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_: Any) -> bool:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "write", full)
        disk.insert_cache(MODEL, [1, 2], stack([1, 2]))
        disk.flush()
    assert "2 tokens were not written to disk: no space left" in caplog.text
    assert disk.insert_cache(MODEL, [1, 2], stack([1, 2]))
    disk.flush()
    assert disk.fetch_nearest_cache(MODEL, [1, 2, 3])[0] is not None


def test_what_is_no_file_is_left_alone(
    disk: DiskPromptCache, tmp_path: Path, stack: Helper, holds: Helper
) -> None:
    disk.insert_cache("model", range(9), stack(range(9)))
    disk.flush()
    (file,) = tmp_path.glob("prompt-*")
    file.unlink()
    file.mkdir()
    assert disk.fetch_nearest_cache("model", list(range(12)))[0] is None
    disk.insert_cache("model", range(9), stack(range(9)))
    disk.insert_cache("model", range(20, 30), stack(range(20, 30)))
    disk.flush()
    assert file.is_dir()
    cache, _ = disk.fetch_nearest_cache("model", list(range(20, 32)))
    assert holds(cache, list(range(20, 30)))


def test_opening_reads_nothing_and_cutting_keeps_only_what_is_left(
    disk: DiskPromptCache, stack: Helper, holds: Helper
) -> None:
    prompt = list(range(8000))
    cache = stack(prompt)
    nbytes = sum(c.nbytes for c in cache)
    disk.insert_cache(MODEL, prompt, cache)
    disk.flush()
    del cache
    gc.collect()
    before = mx.get_active_memory()
    fetched, _ = disk.fetch_nearest_cache(MODEL, [*prompt[:100], 9])
    assert mx.get_active_memory() - before < nbytes / 10
    assert fetched is not None
    assert sum(c.nbytes for c in fetched) < nbytes / 10
    assert holds(fetched, prompt[:100])


WRITER = """
import sys
import mlx.core as mx
from mlxlm_cache import DiskPromptCache, KVCache

with DiskPromptCache(sys.argv[1], 2**28, min_tokens=1) as disk:
    for i in range(1000):
        cache = KVCache()
        x = mx.full((1, 4, 2048, 512), i, dtype=mx.float32)
        cache.update_and_fetch(x, x)
        mx.eval(cache.state)
        disk.insert_cache("m", [i] * 2048, [cache])
        disk.flush()
        print(i, flush=True)
"""


def test_a_process_killed_while_writing_leaves_nothing_half_done(
    tmp_path: Path, stack: Helper
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "0\n"
    deadline = time.monotonic() + 20
    while not any(tmp_path.glob(f"{TEMPORARY}*")) and time.monotonic() < deadline:
        pass
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert any(tmp_path.glob(f"{TEMPORARY}*"))
    with DiskPromptCache(tmp_path, 2**30, min_tokens=1) as disk:
        cache, _ = disk.fetch_nearest_cache("m", [0] * 2049)
        assert cache is not None
        assert mx.all(cache[0].state[0] == 0).item()
        disk.insert_cache("m", [1, 2], stack([1, 2]))
    assert not any(tmp_path.glob(f"{TEMPORARY}*"))


SHARER = """
import sys
import mlx.core as mx
from mlxlm_cache import DiskPromptCache, KVCache

folder, bound, first = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
hits = 0
with DiskPromptCache(folder, bound, min_tokens=1) as disk:
    for i in range(first, first + 40):
        cache = KVCache()
        x = mx.full((1, 1, 8, 32), i % 20, dtype=mx.float32)
        cache.update_and_fetch(x, x)
        disk.insert_cache("m", [i % 20] * 8, [cache])
        if i % 3 == 0:
            disk.flush()
        for token in range(20):
            found, rest = disk.fetch_nearest_cache("m", [token] * 9)
            if found is not None:
                assert rest == [token], rest
                assert mx.all(found[0].state[0] == token).item()
                hits += 1
print(hits)
"""


def test_two_processes_share_a_folder(tmp_path: Path, stack: Helper) -> None:
    size = 4096
    bound = 12 * size
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SHARER, str(tmp_path), str(bound), first],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for first in ("0", "10")
    ]
    for process in processes:
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert errors == ""
        assert int(out) > 0
    assert 0 < sum(f.stat().st_size for f in files(tmp_path)) <= bound
    assert not any(tmp_path.glob(f"{TEMPORARY}*"))
    assert os.access(tmp_path, os.W_OK)
