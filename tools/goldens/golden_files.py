"""How a golden of logits is written: the random weights, the ways to run, the file.

A golden is one safetensors file: the logits of a full prefill and, only where the source
itself gives others, of a prefill in chunks and of single steps with a cache. Its metadata
hold the config, the tokens, the chunk sizes, and the names and shapes of the weights, which
`weight()` makes anew from the seed. Everything is float32; `bfloat16_error` is how far the
same model is off in bfloat16, as the norm of the difference over the norm of the logits.
"""

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

HERE = Path(__file__).resolve().parents[2] / "packages/mlxlm-models/tests/goldens"
SEED = 20240607
LENGTH = 24
CHUNKS = [10, 9, 5]

Run = Callable[[list[int], list[int]], np.ndarray]
"""From tokens and the sizes of the parts they come in to logits (L, vocabulary)."""


def weight(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return the tensor `name`; tests/conftest.py makes the same."""
    noise = np.random.default_rng([SEED, zlib.crc32(name.encode())]).standard_normal(shape)
    if len(shape) <= 1:
        value = 0.1 * noise + name.endswith((".weight", "_g"))
    elif "embed" in name:
        value = noise
    else:
        value = 2.0 * noise / shape[-1] ** 0.5
    return np.asarray(value, np.float32)


def tokens_of(name: str, vocabulary: int) -> list[int]:
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode())])
    return rng.integers(1, vocabulary, LENGTH).tolist()


def in_every_way(run: Run, recomputed: Run, tokens: list[int]) -> dict[str, np.ndarray]:
    """Return the logits of a prefill, and those of chunks and steps where they differ."""
    prefill = run(tokens, [LENGTH])
    arrays = {"prefill": prefill}
    for way, sizes in (("chunks", CHUNKS), ("steps", [1] * LENGTH)):
        other = recomputed(tokens, sizes)
        if difference(other, prefill) > 1e-5:
            arrays[way] = other
    return arrays


def difference(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


def check_effect(name: str, change: object, changed: np.ndarray, prefill: np.ndarray) -> None:
    effect = difference(changed, prefill)
    assert effect > 1e-2, f"{name}: {change} changes the logits by {effect} only"


def save(
    name: str,
    config: dict[str, Any],
    tokens: list[int],
    shapes: dict[str, tuple[int, ...]],
    arrays: dict[str, np.ndarray],
    rounded: np.ndarray | None,
    source: dict[str, str],
) -> None:
    """Write the golden; `rounded` are the logits in bfloat16, where
    they can be had, `source` is who gave them all.
    """
    prefill, error = arrays["prefill"], None
    if rounded is not None:
        error = float(np.linalg.norm(rounded - prefill) / np.linalg.norm(prefill))
    metadata = {
        "config": config,
        "tokens": tokens,
        "chunks": CHUNKS,
        "weights": {key: list(shape) for key, shape in shapes.items()},
        "seed": SEED,
        "bfloat16_error": error,
        **source,
    }
    path = HERE / f"{name}.safetensors"
    if not _same(path, arrays, metadata):
        save_file(arrays, path, {key: json.dumps(value) for key, value in metadata.items()})
    print(f"{name}: {', '.join(arrays)}")


def _same(path: Path, arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> bool:
    """Tell whether the file holds this already: safetensors shuffles the metadata."""
    if not path.exists():
        return False
    with safe_open(path, "np") as file:
        held = {key: json.loads(value) for key, value in file.metadata().items()}
        return held == json.loads(json.dumps(metadata)) and all(
            key in arrays and np.array_equal(file.get_tensor(key), arrays[key])
            for key in file.keys()  # noqa: SIM118
        )
