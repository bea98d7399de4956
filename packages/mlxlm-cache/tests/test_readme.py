import re
from pathlib import Path

import mlx.core as mx
import pytest
from mlxlm_cache import registry
from mlxlm_cache.table import capability_table

README = Path(__file__).parent.parent / "README.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_classes", dict(registry._classes))
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 6
    names: dict[str, object] = {"__name__": "readme"}
    for block in blocks:
        exec(block, names)
    answer, again, reused = names["answer"], names["again"], names["reused"]
    half = names["half"]
    single, batch, cache = names["single"], names["batch"], names["cache"]
    assert isinstance(answer, mx.array)
    assert isinstance(again, mx.array)
    assert mx.allclose(answer, again)
    assert isinstance(reused, mx.array)
    assert mx.allclose(answer, reused)
    assert isinstance(half, list)
    assert [type(c).__name__ for c in half] == ["HalfKVCache"] * 2
    assert half[0].keys.dtype == mx.float16
    assert isinstance(batch, list)
    assert batch[0].offset.tolist() == [11, 7]
    assert isinstance(single, list)
    assert single[0].offset == 7
    assert isinstance(cache, list)
    assert cache[0].offset == 14


def test_the_table_is_what_the_caches_say() -> None:
    assert capability_table() in README.read_text()
