import gc
import logging
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.utils import tree_flatten
from mlxlm_models import cpu_policy as cpu_policy_module
from mlxlm_models.cpu_policy import SHARE, apply_cpu_policy, cpu_policy
from mlxlm_models.layers.linear import PackedEmbedding, PackedLinear

TOKENS = mx.arange(8)[None]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(8, 64)
        self.layers = [nn.Linear(64, 64), nn.Linear(64, 64, bias=False)]
        self.norm = nn.RMSNorm(64)

    def __call__(self, tokens: mx.array) -> mx.array:
        h = self.embed(tokens)
        for layer in self.layers:
            h = layer(h)
        return self.embed.as_linear(self.norm(h))


FLOAT32 = 4 * (8 * 64 + 64 * 64 + 64 + 64 * 64 + 64)


@pytest.fixture(params=["affine", "mxfp4"])
def quantized(request: pytest.FixtureRequest) -> nn.Module:
    model = Model()
    model.set_dtype(mx.bfloat16)
    nn.quantize(model, group_size=32, bits=4, mode=request.param)
    return model


@pytest.fixture(autouse=True)
def cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_policy_module, "backend", lambda: "cpu")


def reference(model: nn.Module) -> mx.array:
    """Compute in float32 with the weights that the packed model stands for."""
    plain = Model()
    for path, module in model.named_modules():
        if hasattr(module, "bits"):
            target = dict(plain.named_modules())[path]
            target.weight = mx.dequantize(
                module.weight,
                module.scales.astype(mx.float32) if module.mode == "affine" else module.scales,
                module.biases.astype(mx.float32) if module.mode == "affine" else None,
                module.group_size,
                module.bits,
                mode=module.mode,
            ).astype(mx.float32)
            if "bias" in module:
                target.bias = module.bias.astype(mx.float32)
    plain.norm.weight = model.norm.weight.astype(mx.float32)
    return plain(TOKENS)


def dtypes(model: nn.Module) -> set[Any]:
    return {array.dtype for _, array in tree_flatten(model.parameters())}


def test_float32_replaces_packed_layers(quantized: nn.Module) -> None:
    expected = reference(quantized)
    apply_cpu_policy(quantized, "float32")
    assert type(quantized.layers[0]) is nn.Linear
    assert type(quantized.embed) is nn.Embedding
    assert dtypes(quantized) == {mx.float32}
    assert mx.allclose(quantized(TOKENS), expected, rtol=1e-5, atol=1e-5)


def test_packed_stays_packed_and_computes_in_float32(quantized: nn.Module) -> None:
    expected = reference(quantized)
    apply_cpu_policy(quantized, "packed")
    assert isinstance(quantized.layers[0], PackedLinear)
    assert isinstance(quantized.embed, PackedEmbedding)
    assert dtypes(quantized) <= {mx.float32, mx.uint32, mx.uint8}
    assert mx.allclose(quantized(TOKENS), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("margin", "kind"), [(0, nn.Linear), (-1, PackedLinear)])
def test_auto_asks_the_available_memory(
    margin: int, kind: type, quantized: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_policy_module, "available_memory", lambda: (FLOAT32 + margin) / SHARE)
    apply_cpu_policy(quantized, "auto")
    assert type(quantized.layers[0]) is kind
    assert mx.bfloat16 not in dtypes(quantized)


def test_16_bit_model_is_cast_where_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    model.set_dtype(mx.float16)
    monkeypatch.setattr(cpu_policy_module, "available_memory", lambda: (FLOAT32 - 1) / SHARE)
    apply_cpu_policy(model)
    assert dtypes(model) == {mx.float16}
    monkeypatch.setattr(cpu_policy_module, "available_memory", lambda: FLOAT32 / SHARE)
    apply_cpu_policy(model)
    assert dtypes(model) == {mx.float32}


def test_choice_is_logged_once(quantized: nn.Module, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        apply_cpu_policy(quantized)
    (record,) = caplog.records
    assert "float32, dequantized" in record.message


def test_other_backends_keep_the_checkpoint(
    quantized: nn.Module, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cpu_policy_module, "backend", lambda: "metal")
    before = dict(tree_flatten(quantized.parameters()))
    apply_cpu_policy(quantized)
    assert not caplog.records
    apply_cpu_policy(quantized, "float32")
    assert "cpu_weights='float32' has no effect on metal" in caplog.text
    assert all(before[name] is array for name, array in tree_flatten(quantized.parameters()))


def test_unknown_choice(quantized: nn.Module) -> None:
    with pytest.raises(ValueError, match="cpu_weights='fast': choose from auto, packed, float32"):
        apply_cpu_policy(quantized, "fast")  # type: ignore[arg-type]


def test_dequantizing_costs_one_layer_at_a_time() -> None:
    from mlxlm_models.weights import materialize

    model = nn.Sequential(*[nn.Linear(512, 512, bias=False) for _ in range(8)])
    nn.quantize(model, bits=8)
    mx.eval(model.parameters())
    packed = sum(array.nbytes for _, array in tree_flatten(model.parameters()))
    gc.collect()
    before = mx.get_active_memory() - packed
    mx.reset_peak_memory()
    apply_cpu_policy(model, "float32")
    materialize(model)
    size, layer = 8 * 512 * 512 * 4, 512 * 512 * 4
    assert mx.get_peak_memory() - before <= size + 3 * layer


def test_the_policy_in_words_names_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_policy_module, "backend", lambda: "cpu")
    monkeypatch.setattr(cpu_policy_module, "available_memory", lambda: 20e9)
    assert cpu_policy() == f"float32 up to {20 * SHARE:.1f} GB, quantized ones packed beyond"
    monkeypatch.setattr(cpu_policy_module, "backend", lambda: "cuda")
    assert cpu_policy() == "as in the checkpoint"
