"""Every family in a left-padded batch against its sequences alone."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlxlm_cache import ChunkedKVCache, merge_prompt_caches, prepare_prompt_cache
from mlxlm_models.registry import get_architecture

CASES = sorted(path.stem for path in (Path(__file__).parents[1] / "goldens").glob("*.safetensors"))
PARTS = [11, 12, 1]


def load(golden: Any) -> nn.Module:
    arch = get_architecture(golden.config["model_type"])
    model, config = arch.create(golden.config)
    model.load_weights(list(arch.sanitize(golden.weights(), config).items()), strict=True)
    return model.eval()


def run(model: nn.Module, tokens: mx.array, cache: Any, sizes: list[int]) -> mx.array:
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    parts = [
        model(tokens[:, end - size : end], cache) for end, size in zip(ends, sizes, strict=True)
    ]
    return mx.concatenate(parts, axis=1)


@pytest.mark.parametrize("case", CASES)
def test_a_left_padded_batch_equals_its_sequences_alone(
    case: str, golden: Any, relative_error: Any
) -> None:
    """In two chunks, the first of them all padding in one row, and a step."""
    data = golden(case)
    model = load(data)
    rows, padding = [data.tokens, data.tokens[:, 14:], data.tokens[:, 4:]], [0, 14, 4]
    cache = merge_prompt_caches([model.make_cache() for _ in rows])
    prepare_prompt_cache(cache, left_padding=padding)
    padded = [mx.pad(row, [(0, 0), (p, 0)]) for row, p in zip(rows, padding, strict=True)]
    # Where keys depend on how long the text was, both have to have grown alike.
    grown = "steps" in data.arrays
    sizes = [sum(PARTS[:2]), PARTS[2]] if grown else PARTS
    together = run(model, mx.concatenate(padded), cache, sizes)
    for i, (row, left) in enumerate(zip(rows, padding, strict=True)):
        alone = run(model, row, model.make_cache(), [23 - left, 1]) if grown else model(row)
        assert relative_error(together[i, left:], alone[0]) < 1e-4, f"row {i}"


def test_chunked_layers_get_chunked_caches(golden: Any) -> None:
    kinds = [c for c in load(golden("llama4_text")).make_cache() if type(c) is ChunkedKVCache]
    assert {c.chunk_size for c in kinds} == {8}
