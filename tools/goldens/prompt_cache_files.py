"""Write small prompt-cache files with one package, and check them with another.

    python prompt_cache_files.py write mlx_lm.models.cache DIR
    python prompt_cache_files.py check mlxlm_cache DIR

`write` fills DIR with a file for each case. `check` loads each, rebuilds the same cache
with its own package, and feeds both the same further tokens: what attention gives must
agree. Run it in both directions. The files in packages/mlxlm-cache/tests/data come from
`write` with mlx-lm 0.31.3 (the older layout) and 0.32.2.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import mlx.core as mx

CASES: dict[str, tuple[str, dict[str, Any], list[int]]] = {
    "kv": ("KVCache", {}, [5, 1, 1]),
    "concatenate": ("ConcatenateKVCache", {}, [5, 1, 1]),
    "quantized": ("QuantizedKVCache", {"group_size": 32, "bits": 8}, [5, 1, 1]),
    "rotating-filling": ("RotatingKVCache", {"max_size": 8, "keep": 2}, [4, 1]),
    "rotating-wrapped": ("RotatingKVCache", {"max_size": 8, "keep": 2}, [3, *[1] * 9]),
    "rotating-chunk": ("RotatingKVCache", {"max_size": 8}, [20]),
    "rotating-chunk-wrapped": ("RotatingKVCache", {"max_size": 8, "keep": 2}, [20, 1, 1]),
    "arrays": ("ArraysCache", {"size": 2}, [3, 1]),
    "chunked": ("ChunkedKVCache", {"chunk_size": 6}, [4, 1]),
    "chunked-slid": ("ChunkedKVCache", {"chunk_size": 6}, [4, 5, 1, 1, 1]),
    "list": ("CacheList", {}, [3, 1]),
    "batch": ("BatchKVCache", {"left_padding": [2, 0]}, [5, 1]),
    "batch-rotating-filling": (
        "BatchRotatingKVCache",
        {"max_size": 8, "left_padding": [2, 0]},
        [5, 1],
    ),
    "batch-rotating-wrapped": (
        "BatchRotatingKVCache",
        {"max_size": 8, "left_padding": [2, 0]},
        [5, *[1] * 6],
    ),
    "batch-rotating-chunk": (
        "BatchRotatingKVCache",
        {"max_size": 8, "left_padding": [2, 0]},
        [5, 7, 1],
    ),
}
FURTHER = [1] * 12


def made(package: Any, kind: str, arguments: dict[str, Any]) -> Any:
    if kind == "CacheList":
        return package.CacheList(package.KVCache(), package.ArraysCache(2))
    return getattr(package, kind)(**arguments)


def tokens(layer: int, start: int, length: int, rows: int) -> mx.array:
    """Return float16 values, (rows, 1, length, 32), that depend on all and the feature."""
    position = mx.arange(start, start + length)[None, None, :, None]
    row = mx.arange(rows)[:, None, None, None]
    return (((position * 7 + mx.arange(32) * 5 + row * 3 + layer) % 32) / 32).astype(mx.float16)


def fed(cache: Any, layer: int, start: int, length: int, rows: int) -> list[mx.array]:
    """Feed tokens; return what they see, or the state that they leave."""
    x = tokens(layer, start, length, rows)
    if hasattr(cache, "caches"):
        return [seen for one in cache.caches for seen in fed(one, layer, start, length, rows)]
    if not hasattr(cache, "update_and_fetch") or hasattr(cache, "lengths"):
        new = x.sum(2)
        cache[0] = new if cache[0] is None else cache[0] * 0.5 + new
        cache.advance(length)
        return [cache[0]]
    if hasattr(cache, "maybe_trim_front"):
        cache.maybe_trim_front()
    mask = None
    if hasattr(cache, "make_mask"):
        mask = cache.make_mask(length, return_array=False, window_size=None)
    keys, values = cache.update_and_fetch(x, -x)
    if not isinstance(keys, mx.array):
        settings = {"group_size": cache.group_size, "bits": cache.bits}
        keys, values = mx.dequantize(*keys, **settings), mx.dequantize(*values, **settings)
    return [mx.fast.scaled_dot_product_attention(x, keys, values, scale=1.0, mask=mask)]


def filled(package: Any, case: dict[str, str], layer: int) -> Any:
    arguments = json.loads(case["arguments"])
    cache = made(package, case["class"], arguments)
    start = 0
    for length in json.loads(case["steps"]):
        mx.eval(fed(cache, layer, start, length, len(arguments.get("left_padding", [0]))))
        start += length
    return cache


def write(package: Any, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (kind, arguments, steps) in CASES.items():
        case = {"class": kind, "arguments": json.dumps(arguments), "steps": json.dumps(steps)}
        cache = [filled(package, case, layer) for layer in range(2)]
        package.save_prompt_cache(str(folder / f"{name}.safetensors"), cache, case)


def check(package: Any, folder: Path) -> None:
    for file in sorted(folder.glob("*.safetensors")):
        caches, case = package.load_prompt_cache(str(file), return_metadata=True)
        rows = len(json.loads(case["arguments"]).get("left_padding", [0]))
        for layer, cache in enumerate(caches):
            if case["class"] == "BatchRotatingKVCache" and not hasattr(cache, "_lengths"):
                cache._lengths = None  # which mlx-lm 0.32.2 forgets when it loads one
            expected = filled(package, case, layer)
            start = sum(json.loads(case["steps"]))
            for length in FURTHER:
                pairs = zip(
                    fed(cache, layer, start, length, rows),
                    fed(expected, layer, start, length, rows),
                    strict=True,
                )
                if not all(mx.allclose(a, b, atol=1e-3) for a, b in pairs):
                    sys.exit(f"{file}: layer {layer} attends to something else at {start}")
                start += length
        print(f"{file}: ok")


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("write", "check"):
        sys.exit(__doc__)
    act = write if sys.argv[1] == "write" else check
    act(import_module(sys.argv[2]), Path(sys.argv[3]))
