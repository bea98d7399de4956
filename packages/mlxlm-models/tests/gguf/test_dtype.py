import mlx.core as mx
from mlxlm_models.gguf.dtype import to_float16


def test_only_float32_is_cast_and_gemma_not_at_all() -> None:
    weights = {
        "norm": mx.ones((2,)),
        "scales": mx.ones((2,), mx.bfloat16),
        "q": mx.zeros((1,), mx.uint32),
    }
    cast = to_float16(weights, "llama")
    assert [a.dtype for a in cast.values()] == [mx.float16, mx.bfloat16, mx.uint32]
    assert to_float16(weights, "gemma3_text") == weights
