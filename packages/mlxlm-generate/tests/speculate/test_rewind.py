from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import ArraysCache, Cache, KVCache, RotatingKVCache
from mlxlm_generate.forward import Forward
from mlxlm_generate.speculate.rewind import Pass, checkpoints

FED = mx.array([5, 6, 7, 8])


def test_caches_are_set_as_they_were() -> None:
    caches: list[Cache] = [RotatingKVCache(8), RotatingKVCache(8), ArraysCache(1), KVCache()]
    caches[1].checkpoint(2)  # type: ignore[attr-defined]
    with checkpoints(caches, 5):
        assert [c.checkpointed for c in caches] == [5, 5, 5, 0]
    assert [c.checkpointed for c in caches] == [0, 2, 0, 0]


def test_a_limit_of_the_callers_that_is_wider_stays() -> None:
    caches: list[Cache] = [RotatingKVCache(8)]
    caches[0].checkpoint(9)  # type: ignore[attr-defined]
    with checkpoints(caches, 5):
        assert caches[0].checkpointed == 9
    assert caches[0].checkpointed == 9


@pytest.mark.parametrize("count", [0, 1, 3, 4])
@pytest.mark.parametrize("kind", ["model", "rotating_model", "hybrid_model", "lists_model"])
def test_R23_what_is_kept_is_as_if_nothing_else_had_been_fed(
    kind: str, count: int, request: pytest.FixtureRequest
) -> None:
    model: Any = request.getfixturevalue(kind)
    followed = []
    for fed in (FED, FED[:count]):
        forward = Forward(model, model.make_cache())
        forward(mx.arange(11))
        with checkpoints(forward.cache, 4):
            latest = Pass(forward, fed)
            if fed.size:
                forward(fed)
            latest.keep(count)
        assert forward.fed == 11 + count
        followed.append(forward(mx.array([9])))
    assert mx.allclose(*followed, atol=1e-5)
