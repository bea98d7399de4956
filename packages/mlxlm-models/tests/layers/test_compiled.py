import gc
import weakref
from collections.abc import Iterator

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlxlm_cache import make_prompt_cache
from mlxlm_models.layers.compiled import PATIENCE, CompiledStep, compile_steps
from mlxlm_models.registry import get_architecture

COMMON = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 128,
    "tie_word_embeddings": True,
}
MODELS = {
    "llama": {},
    "qwen3": {"head_dim": 8},
    "cohere": {"layer_norm_eps": 1e-5, "logit_scale": 0.5},  # both halves side by side
    "gemma2": {
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "sliding_window": 16,
        "attn_logit_softcapping": 5.0,
        "final_logit_softcapping": 3.0,
    },
}


@pytest.fixture(autouse=True)
def uncompiled() -> Iterator[None]:
    """Only the parts are tested: compiling is for GPUs, and on CPU needs a compiler."""
    mx.disable_compile()
    yield
    mx.enable_compile()


def make_model(kind: str) -> nn.Module:
    mx.random.seed(0)
    model, _ = get_architecture(kind).create({"model_type": kind, **COMMON, **MODELS[kind]})
    model.eval()
    return model


def decoded(model: nn.Module, batch: int = 1, steps: int = 2 * PATIENCE) -> mx.array:
    cache = make_prompt_cache(model)
    tokens = mx.arange(batch * 3).reshape(batch, 3)
    logits = []
    for step in range(steps):
        logits.append(model(tokens, cache=cache)[:, -1])
        tokens = (mx.arange(batch)[:, None] + step) % 64
    return mx.stack(logits)


@pytest.mark.parametrize("kind", MODELS)
def test_a_step_in_parts_is_the_step(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(kind)
    expected = decoded(model)
    compile_steps(model)
    calls = []
    real = CompiledStep.__call__
    monkeypatch.setattr(CompiledStep, "__call__", lambda *a: calls.append(1) or real(*a))
    assert mx.allclose(decoded(model), expected, rtol=1e-5, atol=1e-6)
    assert len(calls) == 2 * (2 * PATIENCE - 1 - PATIENCE)


def test_shapes_that_come_seldom_are_not_compiled() -> None:
    step, block = CompiledStep(), make_model("llama").layers[0]
    for batch in (1, 2, 3) * PATIENCE:
        assert not step.fits(block, mx.zeros((batch, 1, 32)))
    for count in range(2 * PATIENCE):
        assert step.fits(block, mx.zeros((4, 1, 32))) == (count >= PATIENCE)
    assert not step.fits(block, mx.zeros((1, 2, 32)))
    block.train()
    assert not step.fits(block, mx.zeros((4, 1, 32)))


@pytest.mark.parametrize("change", ["weight", "layer", "removed"])
def test_other_parameters_are_heard(change: str) -> None:
    model, like = make_model("llama"), make_model("llama")
    compile_steps(model)
    decoded(model)
    for changed in (model, like):
        mlp = changed.layers[1]["mlp"]
        match change:
            case "weight":
                mlp["up_proj"].weight = mlp["up_proj"].weight * 2
            case "layer":
                mlp["up_proj"] = nn.Linear(32, 48, bias=False)
                mlp["up_proj"].weight = mx.ones((48, 32))
            case "removed":
                inputs = mlp.pop("up_proj")
                mlp["up_proj"] = nn.Sequential(inputs, nn.ReLU())
    assert mx.allclose(decoded(model), decoded(like), rtol=1e-5, atol=1e-6)


def test_a_model_that_is_let_go_is_freed() -> None:
    model = make_model("llama")
    compile_steps(model)
    decoded(model)
    gone = weakref.ref(model.layers[0])
    gc.disable()
    try:
        del model
        assert gone() is None
    finally:
        gc.enable()
