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

CASES: dict[str, tuple[str, dict[str, int], list[int]]] = {
    "kv": ("KVCache", {}, [5, 1, 1]),
    "concatenate": ("ConcatenateKVCache", {}, [5, 1, 1]),
    "quantized": ("QuantizedKVCache", {"group_size": 32, "bits": 8}, [5, 1, 1]),
    "rotating-filling": ("RotatingKVCache", {"max_size": 8, "keep": 2}, [4, 1]),
    "rotating-wrapped": ("RotatingKVCache", {"max_size": 8, "keep": 2}, [3, *[1] * 9]),
    "rotating-chunk": ("RotatingKVCache", {"max_size": 8}, [20]),
    "rotating-chunk-wrapped": ("RotatingKVCache", {"max_size": 8, "keep": 2}, [20, 1, 1]),
}
FURTHER = [1] * 12


def tokens(layer: int, start: int, length: int) -> mx.array:
    """Return float16 values, (1, 1, length, 32), that depend on layer, position and feature."""
    position = mx.arange(start, start + length)[:, None]
    feature = mx.arange(32)[None]
    return (((position * 7 + feature * 5 + layer) % 32) / 32)[None, None].astype(mx.float16)


def fed(cache: Any, layer: int, steps: list[int]) -> Any:
    for length in steps:
        x = tokens(layer, cache.offset, length)
        fetched = cache.update_and_fetch(x, -x)
        mx.eval(fetched)
    return cache


def attended(cache: Any, layer: int) -> list[mx.array]:
    """Feed further tokens one by one and return what each sees, whatever its order."""
    seen = []
    for _ in FURTHER:
        x = tokens(layer, cache.offset, 1)
        keys, values = cache.update_and_fetch(x, -x)
        if not isinstance(keys, mx.array):
            settings = {"group_size": cache.group_size, "bits": cache.bits}
            keys, values = mx.dequantize(*keys, **settings), mx.dequantize(*values, **settings)
        seen.append(mx.fast.scaled_dot_product_attention(x, keys, values, scale=1.0))
    return seen


def write(package: Any, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (kind, arguments, steps) in CASES.items():
        cache = [fed(getattr(package, kind)(**arguments), layer, steps) for layer in range(2)]
        case = {"class": kind, "arguments": json.dumps(arguments), "steps": json.dumps(steps)}
        package.save_prompt_cache(str(folder / f"{name}.safetensors"), cache, case)


def check(package: Any, folder: Path) -> None:
    for file in sorted(folder.glob("*.safetensors")):
        caches, case = package.load_prompt_cache(str(file), return_metadata=True)
        for layer, cache in enumerate(caches):
            fresh = getattr(package, case["class"])(**json.loads(case["arguments"]))
            expected = fed(fresh, layer, json.loads(case["steps"]))
            if cache.offset != expected.offset:
                sys.exit(f"{file}: offset {cache.offset}, not {expected.offset}")
            pairs = zip(attended(cache, layer), attended(expected, layer), strict=True)
            if not all(mx.allclose(a, b, atol=1e-3) for a, b in pairs):
                sys.exit(f"{file}: layer {layer} attends to something else")
        print(f"{file}: ok")


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("write", "check"):
        sys.exit(__doc__)
    act = write if sys.argv[1] == "write" else check
    act(import_module(sys.argv[2]), Path(sys.argv[3]))
