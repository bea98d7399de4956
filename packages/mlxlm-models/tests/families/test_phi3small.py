from typing import Any

import mlx.core as mx
import pytest
from mlxlm_models.errors import ConfigError
from mlxlm_models.registry import get_architecture


def create(golden: Any, **changes: Any) -> Any:
    return get_architecture("phi3small").create(golden("phi3small").config | changes)


def test_dummy_tokens_are_never_likely(golden: Any) -> None:
    model, _ = create(golden, dummy_token_indices=[3, 47])
    logits = model(mx.array([[1, 2]]))
    lowest = mx.finfo(mx.float32).min
    assert (logits[..., mx.array([3, 47])] == lowest).all().item()
    assert (logits[..., 4:47] > lowest).all().item()


def test_blocks_have_a_size(golden: Any) -> None:
    with pytest.raises(ConfigError, match=r"'blocksparse_block_size': 0 is not above zero"):
        create(golden, blocksparse_block_size=0)


def test_two_magnitudes_of_a_rotation_are_refused(golden: Any) -> None:
    scaling = {"type": "su", "short_mscale": 1.0, "long_mscale": 1.19}
    with pytest.raises(ConfigError, match=r"'long_mscale': 1.19 is not the short one, 1.0"):
        create(golden, rope_scaling=scaling)
