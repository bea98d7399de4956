from typing import Any

import mlx.core as mx
import pytest
from mlxlm_models.layers.cross_layer import CrossLayerSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec

LENDS = CrossLayerSpec(
    hidden_size=8,
    heads=2,
    kv_heads=1,
    head_dim=4,
    rope=RopeSpec(4),
    qk_norm=NormSpec(1e-5),
    norm_rotated=True,
)
BORROWS = CrossLayerSpec(**{**vars(LENDS), "borrows": True})


def test_a_borrower_has_no_keys_and_values_of_its_own(parameters: Any) -> None:
    names = {name.partition(".")[0] for name in parameters(BORROWS.build())}
    assert names == {"q_proj", "o_proj", "q_norm", "k_norm"}
    assert BORROWS.readers() == ("q_proj",)
    assert set(BORROWS.plan().shards) == {"q_proj", "o_proj"}


def test_a_borrower_with_the_same_queries_sees_what_the_lender_does() -> None:
    lender, borrower = LENDS.build(), BORROWS.build()
    for name in ("q_proj", "o_proj", "q_norm", "k_norm"):
        borrower[name].weight = lender[name].weight
    x = mx.random.normal((1, 5, 8))
    out, lent = lender.pass_on(x, None, "causal", None)
    again, passed = borrower.pass_on(x, lent, "causal", None)
    assert mx.allclose(out, again, atol=1e-6).item()
    assert all(a is b for a, b in zip(passed, lent, strict=True))


def test_a_borrower_needs_a_lender() -> None:
    with pytest.raises(ValueError, match="none before it that lends"):
        BORROWS.build().pass_on(mx.zeros((1, 2, 8)), None, None, None)
