from typing import Any

import mlx.core as mx
from mlxlm_models.families.common import DecoderConfig, causal_lm
from mlxlm_models.layers.nested import NestedCausalLM

CONFIG = DecoderConfig(
    model_type="llama",
    vocab_size=16,
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
)


def test_the_language_model_answers_for_the_whole(parameters: Any) -> None:
    model = NestedCausalLM(causal_lm(CONFIG))
    tokens = mx.array([[1, 2, 3]])
    assert all(name.startswith("language_model.") for name in parameters(model))
    assert mx.array_equal(model(tokens), model.language_model(tokens)).item()
    assert model.layers is model.language_model.model.layers
    assert model.model is model.language_model.model
    assert len(model.make_cache()) == 2
    embeddings = model.model.embed_tokens(tokens)
    same = model(mx.zeros_like(tokens), input_embeddings=embeddings)
    assert mx.array_equal(same, model(tokens)).item()
