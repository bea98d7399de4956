import gc
import json
import os
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlxlm_cache
import numpy as np
import pytest
from mlxlm_cache import (
    ArraysCache,
    Cache,
    CacheList,
    ConcatenateKVCache,
    KVCache,
    NotAFile,
    PromptFileError,
    QuantizedKVCache,
    RotatingKVCache,
    UnknownCache,
    load_prompt_cache,
    read_prompt_file,
    register_cache,
    save_prompt_cache,
    scaled_dot_product_attention,
)
from mlxlm_cache.tensorfile import DIGEST

GOLDENS = sorted((Path(__file__).parent / "data").rglob("*.safetensors"))


def stack() -> list[Cache]:
    caches: list[Cache] = [
        KVCache(),
        RotatingKVCache(8, keep=2),
        QuantizedKVCache(group_size=32, bits=4),
        ConcatenateKVCache(),
    ]
    for length in (5, 4, 1, 1):
        x = mx.random.normal((1, 2, length, 32), key=mx.random.key(length))
        for cache in caches:
            cache.update_and_fetch(x, -x)
    return caches


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, mx.array):
        return bool(mx.array_equal(ours, theirs))
    if ours is None:
        return theirs is None
    return len(ours) == len(theirs) and all(map(same, ours, theirs))


def edit(file: Path, key: str, value: str) -> None:
    """Change one item of a file's metadata, as a writer that knows no digest would."""
    loaded: Any = mx.load(str(file), return_metadata=True)
    arrays, facts = loaded
    mx.eval(arrays)  # the file they are read from is about to be replaced
    del facts[DIGEST]
    mx.save_safetensors(str(file), arrays, facts | {key: value})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "prompt.safetensors"


def test_what_is_saved_comes_back(file: Path) -> None:
    caches = [c for _ in range(3) for c in stack()]  # twelve layers: "10" sorts before "2"
    metadata = {"a": "b", "x.y": "z", "": "empty", "0": "digit"}
    save_prompt_cache(file, caches, metadata)
    again, facts = load_prompt_cache(file, return_metadata=True)
    assert facts == metadata
    assert [type(c) for c in again] == [type(c) for c in caches]
    for ours, theirs in zip(caches, again, strict=True):
        assert (theirs.offset, theirs.meta_state) == (ours.offset, ours.meta_state)
        assert same(theirs.state, ours.state)


def test_empty_caches_come_back_empty(file: Path) -> None:
    empty: list[Cache] = [KVCache(), RotatingKVCache(8), QuantizedKVCache(), ConcatenateKVCache()]
    save_prompt_cache(file, empty)
    assert all(c.empty() for c in load_prompt_cache(file))


def test_only_what_is_in_use_is_written(file: Path) -> None:
    cache = KVCache()
    x = mx.zeros((1, 1, 3, 4))
    cache.update_and_fetch(x, x)
    save_prompt_cache(str(file), [cache])
    assert file.stat().st_size < 1500
    assert [p.name for p in file.parent.iterdir()] == [file.name]


def test_R22_a_file_says_of_what_it_is_a_cache(file: Path) -> None:
    save_prompt_cache(
        file, stack(), {"user": "me"}, tokens=list(range(11)), model="org/name", revision="abc"
    )
    said = read_prompt_file(file)
    assert said.tokens == list(range(11))
    assert (said.model, said.revision, said.metadata) == ("org/name", "abc", {"user": "me"})
    assert said.versions is not None
    assert set(said.versions) == {"mlxlm-cache", "mlx"}
    assert len(said.cache) == 4


def test_R22_a_file_that_says_nothing_still_loads(file: Path) -> None:
    save_prompt_cache(file, stack())
    said = read_prompt_file(file)
    assert (said.tokens, said.model, said.revision) == (None, None, None)


def test_R22_tokens_that_are_not_those_of_the_cache_are_an_error(file: Path) -> None:
    with pytest.raises(PromptFileError, match="10 tokens, but the cache has seen 11"):
        save_prompt_cache(file, stack(), tokens=range(10))
    assert not file.exists()


def test_R22_the_loader_checks_the_tokens(file: Path) -> None:
    save_prompt_cache(file, stack(), tokens=range(11))
    edit(file, "0.mlxlm.tokens", "1,2,3")
    with pytest.raises(PromptFileError, match="3 tokens, but the cache has seen 11"):
        read_prompt_file(file)


def test_R15_a_file_states_its_kv_settings(file: Path) -> None:
    save_prompt_cache(file, stack())
    said = read_prompt_file(file)
    assert (said.kv_bits, said.kv_group_size) == (4, 32)
    save_prompt_cache(file, [KVCache(), RotatingKVCache(8)])
    said = read_prompt_file(file)
    assert (said.kv_bits, said.kv_group_size) == (None, None)


def test_R16_an_unregistered_class_is_an_error_at_save(file: Path) -> None:
    class Mine(KVCache):
        pass

    with pytest.raises(UnknownCache, match="Mine is not registered"):
        save_prompt_cache(file, [KVCache(), Mine()])
    assert not file.exists()


def test_R16_a_registered_class_comes_back(file: Path) -> None:
    @register_cache("tests.Labelled")
    class Labelled(KVCache):
        label = "none"

        @property
        def meta_state(self) -> tuple[str, ...]:
            return *super().meta_state, self.label

        @classmethod
        def from_state(cls, state: Any, meta_state: tuple[str, ...] = ()) -> "Labelled":
            *rest, label = meta_state
            cache = super().from_state(state, tuple(rest))
            cache.label = label
            return cache

    cache = Labelled()
    cache.label = "ünïcode 007"
    cache.update_and_fetch(mx.zeros((1, 1, 3, 4)), mx.zeros((1, 1, 3, 4)))
    save_prompt_cache(file, [cache])
    (again,) = load_prompt_cache(file)
    assert isinstance(again, Labelled)
    assert (again.label, again.offset) == ("ünïcode 007", 3)


def test_a_class_unknown_here_is_named_with_the_file(file: Path) -> None:
    save_prompt_cache(file, [KVCache()])
    edit(file, "1.0", "FutureCache")
    with pytest.raises(UnknownCache, match=r"prompt\.safetensors: no cache class .* 'FutureCache'"):
        load_prompt_cache(file)


@pytest.mark.parametrize("metadata", [{"a": 1}, {1: "a"}, {"a": None}, {"a": {"b": "c"}}])
def test_metadata_that_is_not_strings_is_an_error(file: Path, metadata: Any) -> None:
    with pytest.raises(PromptFileError, match=r"metadata must be strings, but metadata\["):
        save_prompt_cache(file, stack(), metadata)
    assert not file.exists()


def test_our_own_keys_are_reserved(file: Path) -> None:
    with pytest.raises(PromptFileError, match=r"'mlxlm\.model' is one"):
        save_prompt_cache(file, stack(), {"mlxlm.model": "x"})


def test_a_file_cut_off_anywhere_names_itself(file: Path) -> None:
    save_prompt_cache(file, stack(), tokens=range(11))
    whole = file.read_bytes()
    for length in (0, 4, 8, 50, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(PromptFileError, match=r"prompt\.safetensors is (cut off|not)"):
            load_prompt_cache(file)
    file.write_bytes(whole)
    load_prompt_cache(file)


def test_a_file_changed_anywhere_is_an_error(file: Path) -> None:
    save_prompt_cache(file, stack(), tokens=range(11))
    whole = file.read_bytes()
    for at in range(0, len(whole), 97):
        changed = bytearray(whole)
        changed[at] ^= 1
        file.write_bytes(changed)
        with pytest.raises(PromptFileError, match=r"prompt\.safetensors "):
            load_prompt_cache(file)
    file.write_bytes(whole + b"more")
    with pytest.raises(PromptFileError, match="damaged"):
        load_prompt_cache(file)


def test_keys_and_values_are_read_when_they_are_used(file: Path) -> None:
    cache = KVCache()
    x = mx.zeros((1, 1, 4096, 64))
    cache.update_and_fetch(x, x)
    save_prompt_cache(file, [cache] * 4)
    gc.collect()
    before = mx.get_active_memory()
    again = load_prompt_cache(file)
    assert mx.get_active_memory() - before < x.nbytes
    file.unlink()  # what was opened stays readable
    assert same(again[3].state, cache.state)
    assert mx.get_active_memory() - before < 3 * x.nbytes


def test_saving_copies_nothing(file: Path) -> None:
    cache = KVCache()
    x = mx.zeros((1, 4, 4000, 64))  # room for 4096: there are gaps between the heads
    cache.update_and_fetch(x, x)
    mx.eval(cache.state)
    del x
    gc.collect()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    save_prompt_cache(file, [cache])
    assert mx.get_peak_memory() - before < cache.nbytes / 10
    assert same(load_prompt_cache(file)[0].state, cache.state)


def test_something_else_names_itself(file: Path) -> None:
    mx.save_safetensors(str(file), {"model.weight": mx.zeros(3)})
    with pytest.raises(PromptFileError, match=r"prompt\.safetensors is not a prompt-cache file"):
        load_prompt_cache(file)
    file.write_bytes(b"\x05\x00\x00\x00\x00\x00\x00\x00hello and more")
    with pytest.raises(PromptFileError, match=r"prompt\.safetensors is not a safetensors file"):
        load_prompt_cache(file)
    with pytest.raises(FileNotFoundError):
        load_prompt_cache(file.with_name("absent.safetensors"))


def test_a_failed_write_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_prompt_cache(file, [KVCache()])
    before = file.read_bytes()

    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        save_prompt_cache(file, stack())
    assert file.read_bytes() == before
    assert [p.name for p in file.parent.iterdir()] == [file.name]


def test_what_is_no_file_is_neither_written_nor_read(file: Path) -> None:
    os.mkfifo(file)
    for act in (lambda: save_prompt_cache(file, stack()), lambda: load_prompt_cache(file)):
        with pytest.raises(NotAFile, match=r"prompt\.safetensors is a pipe, not a file"):
            act()
    assert file.is_fifo()
    assert [p.name for p in file.parent.iterdir()] == [file.name]


def test_a_link_stays_one(file: Path) -> None:
    target = file.with_name("target.safetensors")
    file.symlink_to(target)
    save_prompt_cache(file, stack())
    assert file.is_symlink()
    assert same(load_prompt_cache(target)[0].state, stack()[0].state)


def test_saving_over_the_file_that_was_loaded_works(file: Path) -> None:
    save_prompt_cache(file, stack())
    caches = load_prompt_cache(file)
    save_prompt_cache(file, caches)
    assert same(load_prompt_cache(file)[0].state, stack()[0].state)


def test_the_model_may_be_named_by_mlx_lms_key(file: Path) -> None:
    save_prompt_cache(file, stack(), {"model": "theirs", "tokenizer_config": "{}"})
    assert read_prompt_file(file).model == "theirs"
    assert read_prompt_file(file).metadata["model"] == "theirs"


def pattern(layer: int, start: int, length: int, rows: int) -> mx.array:
    """Return what tools/goldens/prompt_cache_files.py feeds."""
    position = mx.arange(start, start + length)[None, None, :, None]
    row = mx.arange(rows)[:, None, None, None]
    return (((position * 7 + mx.arange(32) * 5 + row * 3 + layer) % 32) / 32).astype(mx.float16)


def feed(cache: Cache, layer: int, start: int, length: int, rows: int) -> list[mx.array]:
    """Feed tokens; return what they see, or the state that they leave."""
    if isinstance(cache, CacheList):
        return [seen for one in cache for seen in feed(one, layer, start, length, rows)]
    x = pattern(layer, start, length, rows)
    if isinstance(cache, ArraysCache):
        new = x.sum(2)
        cache[0] = new if cache[0] is None else cache[0] * 0.5 + new
        cache.advance(length)
        return [cache[0]]
    mask = cache.make_mask(length)
    fetched = cache.update_and_fetch(x, -x)
    return [scaled_dot_product_attention(x, *fetched, cache, 1.0, mask)]


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_files_of_mlx_lm_go_on_like_our_caches(golden: Path) -> None:
    caches, case = load_prompt_cache(golden, return_metadata=True)
    arguments = json.loads(case["arguments"])
    rows = len(arguments.get("left_padding", [0]))
    assert len(caches) == 2
    for layer, cache in enumerate(caches):
        expected: Cache
        if case["class"] == "CacheList":
            expected = CacheList(KVCache(), ArraysCache(2))
        else:
            expected = getattr(mlxlm_cache, case["class"])(**arguments)
        start = 0
        for length in json.loads(case["steps"]):
            feed(expected, layer, start, length, rows)
            start += length
        assert type(cache) is type(expected)
        if not isinstance(cache, ArraysCache):  # of which mlx-lm does not count the tokens
            assert cache.tokens_seen == expected.tokens_seen
        for step in range(start, start + 12):
            pairs = zip(
                feed(expected, layer, step, 1, rows), feed(cache, layer, step, 1, rows), strict=True
            )
            for ours, theirs in pairs:
                np.testing.assert_allclose(theirs, ours, atol=1e-3)


def test_recurrent_layers_count_their_tokens_through_a_file(file: Path) -> None:
    recurrent = ArraysCache(1)
    recurrent[0] = mx.zeros((1, 4))
    recurrent.advance(3)
    both = CacheList(recurrent.copy(), CacheList(recurrent.copy()))
    save_prompt_cache(file, [recurrent, both], {"user": "me"}, tokens=[1, 2, 3])
    said = read_prompt_file(file)
    assert [c.tokens_seen for c in said.cache] == [3, 3]
    assert said.metadata == {"user": "me"}
    assert said.tokens == [1, 2, 3]


def test_R16_an_unregistered_class_inside_a_list_is_an_error_at_save(file: Path) -> None:
    class Mine(KVCache):
        pass

    with pytest.raises(UnknownCache, match="Mine is not registered"):
        save_prompt_cache(file, [CacheList(KVCache(), Mine())])
    assert not file.exists()


def test_R15_a_file_states_the_kv_settings_inside_a_list(file: Path) -> None:
    save_prompt_cache(file, [CacheList(ArraysCache(1), QuantizedKVCache(group_size=32, bits=4))])
    said = read_prompt_file(file)
    assert (said.kv_bits, said.kv_group_size) == (4, 32)


def test_the_goldens_are_there() -> None:
    assert {p.parent.name for p in GOLDENS} == {"mlx-lm-0.31.3", "mlx-lm-0.32.2"}
    assert len(GOLDENS) == 22
