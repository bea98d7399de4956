from dataclasses import FrozenInstanceError

import pytest
from mlxlm_generate import GENERATION


def test_R56_one_table_that_nobody_can_change() -> None:
    with pytest.raises(FrozenInstanceError):
        GENERATION.max_tokens = 1  # type: ignore[misc]


def test_R56_values_of_the_reference() -> None:
    assert (GENERATION.max_tokens, GENERATION.cli_max_tokens, GENERATION.chat_max_tokens) == (
        256,
        100,
        256,
    )
    assert (GENERATION.prefill_step_size, GENERATION.num_draft_tokens) == (2048, 3)
    assert (GENERATION.cli_seed, GENERATION.chat_seed) == (None, 0)
