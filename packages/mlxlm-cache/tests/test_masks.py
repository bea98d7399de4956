import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_cache import KVCache, create_attention_mask, create_causal_mask

Sizes = st.integers(0, 9)
Window = st.none() | st.integers(1, 12)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 9), offset=Sizes, window=Window)
def test_causal_mask_by_definition(n: int, offset: int, window: int | None) -> None:
    expected = [
        [k <= q and (window is None or q - k < window) for k in range(offset + n)]
        for q in range(offset, offset + n)
    ]
    mask = create_causal_mask(n, offset, window)
    assert mask.dtype == mx.bool_
    assert mask.tolist() == expected


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 9), offset=Sizes, window=Window)
def test_every_form_means_the_causal_mask(n: int, offset: int, window: int | None) -> None:
    cache = KVCache()
    if offset:
        cache.update_and_fetch(mx.zeros((1, 1, offset, 1)), mx.zeros((1, 1, offset, 1)))
    hidden = mx.zeros((1, n, 4))
    expected = create_causal_mask(n, offset, window)
    form = create_attention_mask(hidden, cache, window_size=window)
    array = create_attention_mask(hidden, cache, window_size=window, return_array=True)
    for mask in (form, array):
        if mask is None:
            assert n == 1
            assert mx.all(expected)
        elif isinstance(mask, str):
            assert mask == "causal"
            assert mx.array_equal(expected, create_causal_mask(n, offset))
        else:
            assert mx.array_equal(mask, expected)
    assert not isinstance(array, str)


def test_without_a_cache_the_first_token_is_at_zero() -> None:
    assert create_attention_mask(mx.zeros((1, 1, 4))) is None
    assert create_attention_mask(mx.zeros((1, 3, 4))) == "causal"
    mask = create_attention_mask(mx.zeros((1, 3, 4)), window_size=2)
    assert isinstance(mask, mx.array)
    assert mask.tolist() == [[True, False, False], [True, True, False], [False, True, True]]


def test_a_single_token_past_the_window_gets_a_mask() -> None:
    cache = KVCache()
    cache.update_and_fetch(mx.zeros((1, 1, 3, 1)), mx.zeros((1, 1, 3, 1)))
    mask = cache.make_mask(1, window_size=2)
    assert isinstance(mask, mx.array)
    assert mask.tolist() == [[False, False, True, True]]


@pytest.mark.parametrize("window", [0, -1])
def test_a_window_of_nothing_is_an_error(window: int) -> None:
    with pytest.raises(ValueError, match=f"window_size must be 1 or more, not {window}"):
        create_causal_mask(3, window_size=window)
    with pytest.raises(ValueError, match="window_size"):
        create_attention_mask(mx.zeros((1, 1, 4)), window_size=window)


@pytest.mark.parametrize(("queries", "keys"), [(3, 3), (3, 8), (1, 8)])
def test_mlx_aligns_causal_to_the_last_key(queries: int, keys: int) -> None:
    q = mx.random.normal((1, 2, queries, 32), key=mx.random.key(0))
    k = mx.random.normal((1, 1, keys, 32), key=mx.random.key(1))
    fast = mx.fast.scaled_dot_product_attention
    mask = create_causal_mask(queries, keys - queries)
    np.testing.assert_allclose(
        fast(q, k, k, scale=1.0, mask="causal"), fast(q, k, k, scale=1.0, mask=mask), atol=1e-6
    )
