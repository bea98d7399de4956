from typing import Any

import pytest
from mlxlm_models.errors import ConfigError
from mlxlm_models.registry import get_architecture


def create(golden: Any, **changes: Any) -> Any:
    return get_architecture("phixtral").create(golden("phixtral").config | changes)


def test_no_more_experts_are_chosen_than_there_are(golden: Any) -> None:
    with pytest.raises(ConfigError, match=r"'num_experts_per_tok': 5 of 4 experts"):
        create(golden, num_experts_per_tok=5)


def test_without_experts_a_layer_has_one_mlp(golden: Any, parameters: Any) -> None:
    """Phi 2 was first published in this layout, as `phi-msft`."""
    model, _ = create(golden, num_local_experts=None)
    names = [name for name in parameters(model) if ".h.0.mlp." in name]
    assert sorted(name.split(".mlp.")[1] for name in names) == [
        "fc1.bias",
        "fc1.weight",
        "fc2.bias",
        "fc2.weight",
    ]
