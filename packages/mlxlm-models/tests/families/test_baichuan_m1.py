from typing import Any

import mlx.core as mx
import pytest
from mlxlm_models.errors import ConfigError
from mlxlm_models.registry import get_architecture


def test_the_rows_of_the_head_have_length_one(golden: Any) -> None:
    data = golden("baichuan_m1")
    arch = get_architecture("baichuan_m1")
    _, config = arch.create(data.config)
    head = arch.sanitize(data.weights(), config)["lm_head.weight"]
    assert mx.allclose(mx.linalg.norm(head, axis=-1), mx.ones(48)).item()
    packed = {"lm_head.weight": mx.zeros((48, 4), mx.uint32), "lm_head.scales": mx.ones((48, 1))}
    assert arch.sanitize(packed, config)["lm_head.weight"].dtype == mx.uint32


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"conv_window": 3}, "'conv_window': 3 is not 2"),
        ({"tie_word_embeddings": True}, "'tie_word_embeddings'"),
        ({"num_swa_attention_heads": 3}, "3 heads with 1 keys don't divide 32 evenly"),
    ],
)
def test_what_no_published_model_has_is_refused(changes: Any, problem: str, golden: Any) -> None:
    with pytest.raises(ConfigError, match=problem):
        get_architecture("baichuan_m1").create(golden("baichuan_m1").config | changes)
