from pathlib import Path
from typing import Any

import gguf
import mlx.core as mx
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from mlxlm_models.errors import ConfigError, UnknownArchitecture, WeightsError
from mlxlm_models.gguf import GGUFCheckpoint, read_gguf

PACKED = [Type.Q8_0, Type.Q4_0, Type.Q4_1]


def value(checkpoint: GGUFCheckpoint, module: str) -> np.ndarray[Any, Any]:
    """Return the float32 weight of a module."""
    weights = checkpoint.weights
    weight = weights[f"{module}.weight"]
    if f"{module}.scales" not in weights:
        return np.array(weight.astype(mx.float32))
    assert checkpoint.quantization is not None
    how = checkpoint.quantization.get(module, checkpoint.quantization)
    scales = weights[f"{module}.scales"].astype(mx.float32)
    biases = weights[f"{module}.biases"].astype(mx.float32)
    return np.array(mx.dequantize(weight, scales, biases, how["group_size"], how["bits"]))


def unpermuted(values: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """Rows of each head: even ones first, then odd ones."""
    parts = [np.concatenate([h[0::2], h[1::2]]) for h in np.split(values, heads)]
    return np.concatenate(parts)


@pytest.mark.parametrize("kind", [Type.F32, Type.F16, Type.BF16, *PACKED])
def test_values_are_those_of_the_file(kind: Type, write: Any, llama: Any) -> None:
    tensors = llama(kind)
    checkpoint = read_gguf(write(tensors))
    stored = {
        name: gguf.dequantize(gguf.quantize(values, k), k) for name, (k, values) in tensors.items()
    }
    layer = "model.layers.0"
    assert np.array_equal(value(checkpoint, "model.embed_tokens"), stored["token_embd.weight"])
    assert np.array_equal(value(checkpoint, "model.norm"), stored["output_norm.weight"])
    for ours, theirs in {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }.items():
        expected = stored[f"blk.0.{theirs}.weight"]
        assert np.array_equal(value(checkpoint, f"{layer}.{ours}"), expected)
    queries = unpermuted(stored["blk.0.attn_q.weight"], 4)
    assert np.array_equal(value(checkpoint, f"{layer}.self_attn.q_proj"), queries)
    keys = unpermuted(stored["blk.0.attn_k.weight"], 2)
    assert np.array_equal(value(checkpoint, f"{layer}.self_attn.k_proj"), keys)


@pytest.mark.parametrize("kind", [Type.F32, Type.F16, Type.BF16])
def test_floats_keep_their_dtype(kind: Type, write: Any, llama: Any) -> None:
    dtype = {Type.F32: mx.float32, Type.F16: mx.float16, Type.BF16: mx.bfloat16}[kind]
    checkpoint = read_gguf(write(llama(kind)))
    assert checkpoint.weights["model.embed_tokens.weight"].dtype == dtype
    assert checkpoint.weights["model.norm.weight"].dtype == mx.float32
    assert checkpoint.quantization is None
    assert "quantization" not in checkpoint.config


@pytest.mark.parametrize("kind", PACKED)
def test_packed_types_stay_packed(kind: Type, write: Any, llama: Any) -> None:
    checkpoint = read_gguf(write(llama(kind)))
    bits = 8 if kind == Type.Q8_0 else 4
    assert checkpoint.quantization == {"group_size": 32, "bits": bits, "mode": "affine"}
    assert checkpoint.weights["model.embed_tokens.weight"].shape == (48, 64 * bits // 32)
    assert checkpoint.config["quantization"] == checkpoint.quantization


def test_mixed_types_are_per_layer_settings(write: Any, llama: Any) -> None:
    tensors = llama(Type.Q4_1)
    tensors["token_embd.weight"] = (Type.Q8_0, tensors["token_embd.weight"][1])
    tensors["blk.0.ffn_up.weight"] = (Type.F16, tensors["blk.0.ffn_up.weight"][1])
    quantization = read_gguf(write(tensors)).quantization
    assert quantization == {
        "group_size": 32,
        "bits": 4,
        "mode": "affine",
        "model.embed_tokens": {"group_size": 32, "bits": 8, "mode": "affine"},
    }


def test_other_types_are_dequantized(write: Any, llama: Any) -> None:
    tensors = llama(Type.Q4_1)
    values = tensors["blk.0.ffn_up.weight"][1]
    tensors["blk.0.ffn_up.weight"] = (Type.Q5_0, values)
    checkpoint = read_gguf(write(tensors))
    weight = checkpoint.weights["model.layers.0.mlp.up_proj.weight"]
    assert weight.dtype == mx.float32
    expected = gguf.dequantize(gguf.quantize(values, Type.Q5_0), Type.Q5_0)
    assert np.array_equal(np.array(weight), expected)


def test_k_quants_are_dequantized(write: Any, llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer cannot make them, so random blocks stand in."""
    tensors = llama(Type.F32)
    blocks = np.random.default_rng(1).integers(0, 255, (48, 144), np.uint8)
    blocks[:, [1, 3]] = 0x2C
    monkeypatch.setattr(
        gguf, "quantize", lambda values, kind: blocks if kind == Type.Q4_K else values
    )
    tensors["token_embd.weight"] = (Type.Q4_K, np.zeros((48, 256), np.float32))
    weight = read_gguf(write(tensors)).weights["model.embed_tokens.weight"]
    assert np.array_equal(np.array(weight), gguf.dequantize(blocks, Type.Q4_K))


def test_missing_extra_is_named(write: Any, llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    path = write(llama() | {"token_embd.weight": (Type.Q5_0, np.ones((48, 64), np.float32))})
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(WeightsError, match=r"'token_embd.weight' is Q5_0.*mlxlm-models\[gguf\]"):
        read_gguf(path)


def test_config_in_hugging_face_keys(write: Any, llama: Any) -> None:
    metadata = {"tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2}
    assert read_gguf(write(llama(tied=False), metadata=metadata)).config == {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 1,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "vocab_size": 48,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "attention_bias": False,
        "mlp_bias": False,
    }


def test_untied_head_and_rope_tensor(write: Any, llama: Any) -> None:
    tensors = llama(tied=False)
    factors = np.array([1, 2, 3, 4, 5, 6, 7, 9], np.float32)
    tensors["rope_freqs.weight"] = (Type.F32, factors)
    checkpoint = read_gguf(write(tensors))
    assert np.array_equal(value(checkpoint, "lm_head"), tensors["output.weight"][1])
    assert checkpoint.config["rope_scaling"]["long_factor"] == factors.tolist()
    assert not any("rope" in name for name in checkpoint.weights)


def test_biases_are_permuted_like_their_weights(write: Any, llama: Any) -> None:
    tensors = llama()
    bias = np.arange(64, dtype=np.float32)
    tensors["blk.0.attn_q.bias"] = (Type.F32, bias)
    checkpoint = read_gguf(write(tensors))
    found = checkpoint.weights["model.layers.0.self_attn.q_proj.bias"]
    assert np.array_equal(np.array(found), unpermuted(bias, 4))
    assert checkpoint.config["attention_bias"] is True


def test_qwen_is_not_permuted_and_gemma_loses_its_norm_offset(write: Any, llama: Any) -> None:
    tensors = llama()
    qwen = read_gguf(write(tensors, "qwen2"))
    expected = tensors["blk.0.attn_q.weight"][1]
    assert np.array_equal(value(qwen, "model.layers.0.self_attn.q_proj"), expected)
    gemma = read_gguf(write(tensors, "gemma"))
    norm = tensors["output_norm.weight"][1]
    np.testing.assert_allclose(value(gemma, "model.norm"), norm - 1, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"expert_count": 8}, ConfigError, "mixture of experts"),
        ({"embedding_length": None}, ConfigError, r"lacks llama\.embedding_length"),
        ({"attention.head_count_kv": [2, 4]}, ConfigError, "different head counts"),
        ({"attention.value_length": 8}, ConfigError, "keys of 16 and values of 8"),
    ],
)
def test_unusable_settings(
    settings: Any, error: type[Exception], message: str, write: Any, llama: Any
) -> None:
    with pytest.raises(error, match=message):
        read_gguf(write(llama(), settings=settings))


def test_other_architecture_lists_the_known(write: Any, llama: Any) -> None:
    with pytest.raises(UnknownArchitecture, match=r"model\.gguf.*'bert'.*llama, smollm3, qwen2"):
        read_gguf(write(llama(), "bert"))


def test_unknown_tensor_is_named(write: Any, llama: Any) -> None:
    tensors = llama() | {"blk.0.attn_sinks.weight": (Type.F32, np.ones(64, np.float32))}
    with pytest.raises(WeightsError, match="'blk.0.attn_sinks.weight'"):
        read_gguf(write(tensors))


def test_vocabulary_only_and_parts(write: Any, llama: Any) -> None:
    with pytest.raises(WeightsError, match="no tensors"):
        read_gguf(write({}))
    with pytest.raises(WeightsError, match="one of 3 parts"):
        read_gguf(write(llama(), metadata={"split.count": 3}))


def test_smollm2_equals_llama_cpps_values(smollm2: Path, smollm2_reference: Any) -> None:
    checkpoint = read_gguf(smollm2)
    tensors = {tensor.name: tensor for tensor in smollm2_reference.tensors}
    for theirs, ours in {
        "token_embd": "model.embed_tokens",
        "blk.0.attn_v": "model.layers.0.self_attn.v_proj",
        "blk.29.ffn_down": "model.layers.29.mlp.down_proj",
        "output_norm": "model.norm",
    }.items():
        tensor = tensors[f"{theirs}.weight"]
        expected = gguf.dequantize(tensor.data, tensor.tensor_type)
        assert np.array_equal(value(checkpoint, ours), expected)
    tensor = tensors["blk.7.attn_q.weight"]
    expected = unpermuted(gguf.dequantize(tensor.data, tensor.tensor_type), 9)
    assert np.array_equal(value(checkpoint, "model.layers.7.self_attn.q_proj"), expected)
    assert checkpoint.config["vocab_size"] == 49152
    assert checkpoint.config["tie_word_embeddings"] is True
