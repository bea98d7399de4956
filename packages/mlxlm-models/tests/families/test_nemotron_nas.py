from typing import Any

import pytest
from mlxlm_models.errors import ConfigError
from mlxlm_models.registry import get_architecture


def create(golden: Any, changed: dict[str, Any]) -> Any:
    config = golden("nemotron_nas").config
    blocks = [*config["block_configs"][:-1], changed]
    return get_architecture("nemotron-nas").create(config | {"block_configs": blocks})


FFN = {"ffn_mult": 1.0}


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ({"attention": {"n_heads_in_group": 2}}, "layer 4 has no 'ffn'"),
        ({"attention": {"n_heads_in_group": 3}, "ffn": FFN}, "4 heads are no groups of 3"),
        ({"attention": {"no_op": True}, "ffn": {}}, "doesn't say how wide its MLP is"),
        ({"attention": {"window_length": 8}, "ffn": FFN}, "layer 4 has 'window_length'"),
    ],
)
def test_halves_that_cannot_be_built_are_told(block: Any, problem: str, golden: Any) -> None:
    with pytest.raises(ConfigError, match=problem):
        create(golden, block)


def test_each_layer_has_a_configuration(golden: Any) -> None:
    config = golden("nemotron_nas").config | {"block_configs": []}
    with pytest.raises(ConfigError, match="it has 0 of 5 layers"):
        get_architecture("nemotron-nas").create(config)


def test_widths_may_be_given_as_they_are(golden: Any) -> None:
    model = create(golden, {"attention": {"no_op": True}, "ffn": {"intermediate_size": 40}})[0]
    assert model.layers[4].mlp.up_proj.weight.shape == (40, 32)
