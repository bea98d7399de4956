from typing import Any

import pytest
from mlxlm_models.errors import ConfigError
from mlxlm_models.layers.plan import Shard
from mlxlm_models.registry import get_architecture


def test_gates_are_divided_with_their_heads(golden: Any) -> None:
    arch = get_architecture("iquestloopcoder")
    model = arch.create(golden("iquestloopcoder").config)[0]
    assert arch.plan(model).shards["model.gate_projections.1"] == Shard("heads")


def test_there_is_a_loop(golden: Any) -> None:
    config = golden("iquestloopcoder").config | {"loop_num": 0}
    with pytest.raises(ConfigError, match=r"'loop_num': 0 is not above zero"):
        get_architecture("iquestloopcoder").create(config)
