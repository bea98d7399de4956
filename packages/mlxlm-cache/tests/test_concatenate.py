import mlx.core as mx
from mlxlm_cache import ConcatenateKVCache


def test_R17_trim_removes_the_suffix_itself() -> None:
    cache = ConcatenateKVCache()
    x = mx.arange(6.0).reshape(1, 1, 6, 1)
    cache.update_and_fetch(x, x)
    assert cache.trim(4) == 4
    keys, _ = cache.update_and_fetch(x[:, :, :1] + 9, x[:, :, :1] + 9)
    assert keys.flatten().tolist() == [0, 1, 9]


def test_memory_is_what_the_tokens_need() -> None:
    cache = ConcatenateKVCache()
    cache.update_and_fetch(mx.zeros((1, 1, 3, 4)), mx.zeros((1, 1, 3, 4)))
    assert cache.nbytes == 2 * 3 * 4 * 4
