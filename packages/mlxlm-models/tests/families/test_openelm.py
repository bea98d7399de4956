from typing import Any

import pytest
from mlxlm_models.errors import ConfigError
from mlxlm_models.registry import get_architecture


def create(golden: Any, **changes: Any) -> Any:
    return get_architecture("openelm").create(golden("openelm").config | changes)


def test_lists_have_an_entry_for_each_layer(golden: Any) -> None:
    with pytest.raises(ConfigError, match=r"'num_kv_heads': it has 1 entries for 2 layers"):
        create(golden, num_kv_heads=[1])


def test_heads_of_each_layer_share_evenly(golden: Any) -> None:
    with pytest.raises(ConfigError, match=r"'num_kv_heads': 4 heads cannot share 3 evenly"):
        create(golden, num_kv_heads=[1, 3])


def test_keys_that_transformers_adds_do_not_win_over_its_own(golden: Any) -> None:
    _, config = create(golden, share_input_output_layers=True, tie_word_embeddings=False)
    assert config.tie_word_embeddings
