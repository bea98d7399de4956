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
    assert len(blocks) == 3
    names: dict[str, object] = {"__name__": "readme"}
    for block in blocks:
        exec(block, names)
    answer, again, half = names["answer"], names["again"], names["half"]
    assert isinstance(answer, mx.array)
    assert isinstance(again, mx.array)
    assert mx.allclose(answer, again)
    assert mx.allclose(answer, names["reused"])
    assert isinstance(half, list)
    assert [type(c).__name__ for c in half] == ["HalfKVCache"] * 2
    assert half[0].keys.dtype == mx.float16


def test_the_table_is_what_the_caches_say() -> None:
    assert capability_table() in README.read_text()
