from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlxlm_models.families.common import DecoderConfig
from mlxlm_models.layers.decoder import CausalLM, DecoderNames

SPEC = DecoderConfig(
    model_type="llama",
    vocab_size=16,
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
).decoder()
TOKENS = mx.array([[1, 2, 3]])


def test_parameters_have_the_public_names(parameters: Any) -> None:
    names = parameters(CausalLM(SPEC)).keys()
    assert {"lm_head.weight", "model.embed_tokens.weight", "model.norm.weight"} <= names
    assert "model.layers.1.self_attn.q_proj.weight" in names
    tied = parameters(CausalLM(replace(SPEC, tied=True))).keys()
    assert names - tied == {"lm_head.weight"}


def test_a_cache_of_the_wrong_length_is_refused() -> None:
    model = CausalLM(SPEC)
    with pytest.raises(ValueError, match="a cache of 1 layers for a model of 2"):
        model(TOKENS, model.make_cache()[:1])


def test_embedding_scale_is_rounded_to_the_dtype() -> None:
    scale = 48**0.5
    model = CausalLM(replace(SPEC, embedding_scale=scale, layers=()))
    model.set_dtype(mx.bfloat16)
    rounded = model.model.embed_tokens(TOKENS) * mx.array(scale, mx.bfloat16)
    assert mx.array_equal(model.model(TOKENS), model.model.norm(rounded)).item()


def test_logits_are_capped() -> None:
    model = CausalLM(replace(SPEC, logit_soft_cap=0.01))
    plain: Any = CausalLM(SPEC)
    plain.lm_head, plain.model = model.lm_head, model.model
    expected = mx.tanh(plain(TOKENS) / 0.01) * 0.01
    assert mx.allclose(model(TOKENS), expected, atol=1e-5).item()


def test_learned_positions_are_added_from_where_the_cache_is() -> None:
    model: Any = CausalLM(replace(SPEC, positions=8, position_offset=2))
    assert model.model.wpe.weight.shape == (8, 8)
    whole = model(TOKENS)
    cache = model.make_cache()
    parts = [model(TOKENS[:, :2], cache), model(TOKENS[:, 2:], cache)]
    assert mx.allclose(mx.concatenate(parts, axis=1), whole, atol=1e-5).item()
    embeddings = model.model.embed_tokens(TOKENS) + model.model.wpe.weight[2:5]
    without = CausalLM(SPEC)
    without.load_weights(
        [(k, v) for k, v in tree_flatten(model.parameters()) if "wpe" not in k], strict=True
    )
    assert mx.allclose(without(TOKENS, input_embeddings=embeddings), whole, atol=1e-5).item()


def test_logits_are_scaled() -> None:
    model = CausalLM(replace(SPEC, logit_scale=0.25))
    plain: Any = CausalLM(SPEC)
    plain.update(model.parameters())
    assert mx.allclose(model(TOKENS), plain(TOKENS) * 0.25, atol=1e-6).item()


def test_parts_have_the_names_given(parameters: Any) -> None:
    names = DecoderNames(embeddings="wte", layers="h", norm="ln_f", head="out", head_inside=True)
    spec = replace(SPEC, names=names, head_bias=True, embedding_norm=SPEC.norm)
    model = CausalLM(spec)
    heads = {name.split(".")[1] for name in parameters(model)}
    assert heads == {"wte", "h", "ln_f", "out", "embed_layer_norm"}
    assert "model.out.bias" in parameters(model)
    assert len(model.layers) == 2
    assert model(TOKENS, model.make_cache()).shape == (1, 3, 16)


def test_padding_before_the_first_token_has_the_first_position() -> None:
    model: Any = CausalLM(replace(SPEC, positions=8, position_offset=2))

    class At:
        offset = mx.array([-2, 0])

    at: Any = At()
    embedded = model.model.embed(mx.array([[0, 0, 1], [1, 2, 3]]), at, None)
    plain = model.model.embed_tokens(mx.array([[0, 0, 1], [1, 2, 3]]))
    positions = mx.array([[2, 2, 2], [2, 3, 4]])
    assert mx.allclose(embedded - plain, model.model.wpe.weight[positions], atol=1e-6).item()
