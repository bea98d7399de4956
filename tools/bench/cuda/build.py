"""Models with random weights, made on the device; both sides hold the same arrays."""

from importlib import import_module
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_unflatten
from mlxlm_cache.device import backend
from mlxlm_models.layers.compiled import compile_steps
from mlxlm_models.layers.linear import choose_products
from mlxlm_models.registry import get_architecture


def random_model(config: dict[str, Any], dtype: mx.Dtype, seed: int = 0) -> nn.Module:
    """Return our model of a config. Weights: normal, 0.02; norms: ones."""
    model, _ = get_architecture(config["model_type"]).create(config)
    keys = iter(mx.random.split(mx.random.key(seed), 4096))
    for name, old in flat(model):
        key = next(keys)
        new = 0.02 * mx.random.normal(old.shape, key=key)
        new = (mx.ones(old.shape) if "norm" in name else new).astype(dtype)
        mx.eval(new)  # one at a time
        model.update(tree_unflatten([(name, new)]))
    return model.eval()


def quantized(model: nn.Module, bits: int = 4) -> nn.Module:
    nn.quantize(model, group_size=64, bits=bits)
    mx.eval(model.parameters())
    mx.clear_cache()
    return model


def peer_model(config: dict[str, Any], like: nn.Module) -> nn.Module:
    """Return mlx-lm's model of the config with the arrays of `like`, packed where they are."""
    family = import_module(f"mlx_lm.models.{config['model_type']}")
    model: nn.Module = family.Model(family.ModelArgs.from_dict(config))
    arrays = flat(like)
    packed = {name.removesuffix(".scales") for name, _ in arrays if name.endswith(".scales")}
    if packed:
        nn.quantize(model, 64, 4, class_predicate=lambda path, _: path in packed)
    model.update(tree_unflatten(arrays))
    return model.eval()


def prepared(model: nn.Module) -> nn.Module:
    """Do what `load` does with a model before it is used."""
    choose_products(model)
    if backend() == "cuda":
        compile_steps(model)
    mx.eval(model.parameters())
    return model.eval()


def flat(model: nn.Module) -> list[tuple[str, mx.array]]:
    arrays: Any = tree_flatten(model.parameters())
    return list(arrays)


def read_per_token(model: nn.Module, config: dict[str, Any]) -> float:
    """Return the bytes of weights that a step of decoding one token reads.

    All but the embeddings, and of experts those that are chosen.
    """
    share = config.get("num_experts_per_tok", 1) / config.get("num_experts", 1)
    return sum(
        array.nbytes * (share if "switch_mlp" in name else 1)
        for name, array in flat(model)
        if "embed_tokens" not in name
    )
