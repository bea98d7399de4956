import mlx.core as mx
import pytest
from mlxlm_cache import CacheNotQuantizable, QuantizedKVCache
from mlxlm_cache.affine import check_settings


def test_settings_that_mlx_has_not_are_an_error() -> None:
    with pytest.raises(ValueError, match="bits must be one of .* not 7"):
        check_settings(64, 7)
    with pytest.raises(ValueError, match="group_size must be one of .* not 16"):
        check_settings(16, 8)


def test_a_head_dimension_must_divide_into_groups() -> None:
    with pytest.raises(CacheNotQuantizable, match="head dimension of 80 .* groups of 64"):
        QuantizedKVCache().pack(mx.zeros((1, 1, 1, 80)))
