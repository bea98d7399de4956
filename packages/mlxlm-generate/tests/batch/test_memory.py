from typing import Any

import pytest
from mlxlm_cache import RotatingKVCache
from mlxlm_cache.device import total_memory
from mlxlm_generate import BatchGenerator, InvalidOption, ModelDrafter, NGramDrafter
from mlxlm_generate.batch.memory import default_budget


def test_the_default_leaves_room(model: Any) -> None:
    assert 0 < default_budget(model) < total_memory()


BYTES = 2 * 2 * 2 * 32 * 4  # of a token: keys and values of two layers of two heads of 32


def test_the_draft_models_cache_counts(model: Any) -> None:
    plain = 256 * BYTES
    with BatchGenerator(model, max_tokens=4, memory_budget=2 * plain - 1) as generator:
        generator.insert([[1, 2]])
        with pytest.raises(InvalidOption, match="memory_budget"):
            generator.insert([[1, 2]], drafters=[ModelDrafter(model)])
    with BatchGenerator(model, max_tokens=4, memory_budget=2 * plain) as generator:
        generator.insert([[1, 2]], drafters=[ModelDrafter(model)])


def test_slots_of_guesses_count(model: Any) -> None:
    """Windows of 8 tokens hold 61 more."""
    model.caches = lambda: [RotatingKVCache(8), RotatingKVCache(8)]
    options: dict[str, Any] = {"max_tokens": 99, "num_draft_tokens": 60}
    try:
        with BatchGenerator(model, memory_budget=69 * BYTES - 1, **options) as generator:
            generator.insert([[1, 2]])
            with pytest.raises(InvalidOption, match="memory_budget"):
                generator.insert([[1, 2]], drafters=[NGramDrafter()])
        with BatchGenerator(model, memory_budget=69 * BYTES, **options) as generator:
            generator.insert([[1, 2]], drafters=[NGramDrafter()])
    finally:
        model.caches = None
