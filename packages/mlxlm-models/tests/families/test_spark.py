from typing import Any

import pytest
from mlxlm_models.errors import ConfigError
from mlxlm_models.registry import get_architecture


def test_an_unknown_gate_is_refused(golden: Any) -> None:
    config = golden("spark2_5").config
    with pytest.raises(ConfigError, match="'tanh' is neither sigmoid nor silu"):
        get_architecture("spark2_5").create(config | {"gate_attn_act_mode": "tanh"})
