"""Every family and special path against the logits of transformers."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlxlm_cache import KVCache, RotatingKVCache
from mlxlm_models.registry import get_architecture, list_architectures

CASES = sorted(path.stem for path in (Path(__file__).parents[1] / "goldens").glob("*.safetensors"))


def load(golden: Any) -> nn.Module:
    arch = get_architecture(golden.config["model_type"])
    model, config = arch.create(golden.config)
    model.load_weights(list(arch.sanitize(golden.weights(), config).items()), strict=True)
    return model.eval()


def run(model: nn.Module, tokens: mx.array, sizes: list[int]) -> mx.array:
    cache = model.make_cache()
    parts, start = [], 0
    for size in sizes:
        parts.append(model(tokens[:, start : start + size], cache))
        mx.eval(parts[-1], [c.state for c in cache])
        start += size
    return mx.concatenate(parts, axis=1)[0]


@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case: str, golden: Any, relative_error: Any) -> None:
    data = golden(case)
    model = load(data)
    length = data.tokens.shape[1]
    assert relative_error(model(data.tokens)[0], data.logits("prefill")) < 1e-4, "without a cache"
    for way, sizes in (("prefill", [length]), ("chunks", data.chunks), ("steps", [1] * length)):
        assert relative_error(run(model, data.tokens, sizes), data.logits(way)) < 1e-4, way


def test_every_architecture_has_a_golden(golden: Any) -> None:
    """An alias is the architecture of another type, and needs none of its own."""
    proven = {id(get_architecture(golden(case).config["model_type"])) for case in CASES}
    assert [name for name in list_architectures() if id(get_architecture(name)) not in proven] == []


def test_hidden_states_are_available_alone(golden: Any, relative_error: Any) -> None:
    data = golden("llama_tied")
    model = load(data)
    hidden = model.model(data.tokens)
    assert hidden.shape == (1, 24, 32)
    assert relative_error(model.logits(hidden)[0], data.logits("prefill")) < 1e-4


@pytest.mark.parametrize("case", ["llama", "gemma2"])
def test_input_embeddings_replace_those_of_the_tokens(
    case: str, golden: Any, relative_error: Any
) -> None:
    data = golden(case)
    model = load(data)
    embeddings = model.model.embed_tokens(data.tokens)
    blank = mx.zeros_like(data.tokens)
    logits = model(blank, input_embeddings=embeddings)
    assert relative_error(logits[0], data.logits("prefill")) < 1e-4


def test_layers_with_a_window_get_rotating_caches(golden: Any) -> None:
    kinds = [type(c) for c in load(golden("gemma2")).make_cache()]
    assert kinds == [RotatingKVCache, KVCache]
    first = load(golden("gemma3")).make_cache()[0]
    assert (type(first), first.max_size, first.keep) == (RotatingKVCache, 8, 0)


def test_plain_caches_serve_layers_with_a_window(golden: Any, relative_error: Any) -> None:
    """Prompt files of programs that never rotate have only plain caches."""
    data = golden("gemma3_text")
    model = load(data)
    cache = [KVCache() for _ in model.layers]
    parts = [model(data.tokens[:, :10], cache), model(data.tokens[:, 10:], cache)]
    logits = mx.concatenate(parts, axis=1)[0]
    assert relative_error(logits, data.logits("prefill")) < 1e-4


@pytest.mark.parametrize("case", CASES)
def test_bfloat16_loses_no_more_than_transformers_does(case: str, golden: Any) -> None:
    data = golden(case)
    model = load(data)
    model.set_dtype(mx.bfloat16)
    logits = model(data.tokens, model.make_cache())
    assert logits.dtype == mx.bfloat16
    exact = data.logits("prefill")
    errors = mx.linalg.norm(logits[0].astype(mx.float32) - exact, axis=-1)
    # Of the tokens, two may fall to another expert where scores were near a tie.
    error = mx.linalg.norm(mx.sort(errors)[:-2]) / mx.linalg.norm(exact)
    assert error.item() < 2 * (data.bfloat16_error or 0.03)


@pytest.mark.parametrize("case", ["llama", "gemma2"])
def test_quantized_caches_serve_every_kind_of_attention(
    case: str, golden: Any, relative_error: Any, parameters: Any
) -> None:
    data = golden(case)
    data.config.update(head_dim=64, sliding_window=None, layer_types=["full_attention"] * 2)
    arch = get_architecture(data.config["model_type"])
    model, _ = arch.create(data.config)
    shapes = {name: list(value.shape) for name, value in parameters(model).items()}
    model.load_weights([(name, data.weight(name, shape)) for name, shape in shapes.items()])
    cache = model.make_cache()
    model(data.tokens[:, :12], cache)
    packed = [c.to_quantized(group_size=64, bits=8) for c in cache]
    logits = model(data.tokens[:, 12:], packed)
    assert relative_error(logits[0], model(data.tokens)[0, 12:]) < 0.2


def test_two_spellings_of_gemma3_are_one_model(golden: Any, relative_error: Any) -> None:
    data = golden("gemma3")
    arch = get_architecture("gemma3")
    model, config = arch.create(data.config)
    newer = {
        name.replace("language_model.model.", "model.language_model.").replace(
            "vision_tower.", "model.vision_tower."
        ): value
        for name, value in data.weights().items()
    }
    assert newer.keys() != data.weights().keys()
    model.load_weights(list(arch.sanitize(newer, config).items()), strict=True)
    assert relative_error(model(data.tokens)[0], data.logits("prefill")) < 1e-4
    assert arch.rename("model.language_model.layers.0.mlp.up_proj") == (
        "language_model.model.layers.0.mlp.up_proj"
    )
