from pathlib import Path
from threading import Event, Thread
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import KVCache
from mlxlm_server import ServerSettings
from mlxlm_server.engine.prefixes import Prefixes

TOKENS = list(range(300))


@pytest.fixture
def prefixes() -> Prefixes:
    return Prefixes("model", ServerSettings(), 2**30)


def filled(tokens: int = len(TOKENS)) -> list[Any]:
    cache = KVCache()
    cache.update_and_fetch(mx.ones((1, 1, tokens, 4)), mx.ones((1, 1, tokens, 4)))
    return [cache]


def test_a_later_thread_has_what_an_earlier_one_kept(prefixes: Prefixes) -> None:
    first = prefixes.lend()
    keeping = Thread(target=lambda: first.keep(TOKENS, filled(), "user"))
    keeping.start()
    keeping.join()
    assert first.take_back()
    cache, rest = prefixes.lend().fetch([*TOKENS, 7])
    assert cache is not None
    assert rest == [7]


def test_after_it_is_taken_back_a_lease_finds_and_keeps_nothing(prefixes: Prefixes) -> None:
    lease = prefixes.lend()
    lease.keep(TOKENS, filled(), "user")
    lease.take_back()
    lease.keep([*TOKENS, 7], filled(301), "user")
    assert lease.fetch([*TOKENS, 7]) == (None, [*TOKENS, 7])
    assert len(prefixes.memory) == 1


def test_prefixes_are_lost_with_a_thread_that_hangs_or_fails_at_them(
    prefixes: Prefixes, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, go_on = Event(), Event()

    def hang(*arguments: Any) -> Any:
        inside.set()
        go_on.wait(20)
        raise OSError("the disk is gone")

    monkeypatch.setattr(prefixes.memory, "fetch_nearest_cache", hang)
    lease = prefixes.lend()

    def fetch() -> None:
        with pytest.raises(OSError, match="gone"):
            lease.fetch(TOKENS)

    hung = Thread(target=fetch)
    hung.start()
    assert inside.wait(20)
    assert not lease.take_back()  # and did not wait
    go_on.set()
    hung.join()
    assert not lease.take_back()


def test_a_cache_of_other_tokens_is_not_kept_and_harms_nothing(
    prefixes: Prefixes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lease = prefixes.lend()
    caches = filled()
    monkeypatch.setattr(type(caches[0]), "tokens_seen", 7)
    lease.keep(TOKENS, caches, "user")
    assert "is not kept" in caplog.text
    assert lease.take_back()


def test_closing_writes_what_waits(tmp_path: Path) -> None:
    settings = ServerSettings(disk_cache=tmp_path)
    prefixes = Prefixes("model", settings, 2**30)
    prefixes.lend().keep(TOKENS, filled(), "user")
    assert prefixes.close(20)
    again = Prefixes("model", settings, 2**30)
    cache, rest = again.lend().fetch([*TOKENS, 7])
    assert cache is not None
    assert rest == [7]
    assert again.close(20)
