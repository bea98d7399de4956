from typing import Any

import pytest
from mlxlm_models.errors import ConfigError
from mlxlm_models.registry import get_architecture


def test_heads_that_are_no_groups_are_refused(golden: Any) -> None:
    config = golden("plamo").config
    for shared in (3, 0):
        with pytest.raises(ConfigError, match=f"4 heads are no groups of {shared}"):
            get_architecture("plamo").create(config | {"n_shared_head": shared})
