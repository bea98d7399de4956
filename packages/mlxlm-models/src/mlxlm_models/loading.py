"""From a name to a model and its tokenizer."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, overload

import mlx.core as mx
import mlx.nn as nn
from mlxlm_cache.device import backend

from mlxlm_models.adapters import apply_adapters
from mlxlm_models.config_file import load_config, merge
from mlxlm_models.construct import check_architecture, construct
from mlxlm_models.cpu_policy import CpuWeights, apply_cpu_policy, check_cpu_weights
from mlxlm_models.errors import TokenizerError
from mlxlm_models.gguf import GGUFFile, checkpoint_of, open_gguf
from mlxlm_models.gguf.dtype import to_float16
from mlxlm_models.layers.compiled import compile_steps
from mlxlm_models.layers.linear import choose_products
from mlxlm_models.quantization import Settings, quantize_layers, read_settings, unpack_whole
from mlxlm_models.sources import resolve
from mlxlm_models.sources.base import is_gguf
from mlxlm_models.tokenizer.gguf import tokenizer_from_gguf
from mlxlm_models.tokenizer.load import load_tokenizer
from mlxlm_models.tokenizer.wrapper import TokenizerWrapper
from mlxlm_models.weights import assign, materialize, read_weights

Config = dict[str, Any]
Weights = dict[str, mx.array]


@overload
def load(
    path_or_hf_repo: str | Path,
    tokenizer_config: Mapping[str, Any] | None = None,
    model_config: Mapping[str, Any] | None = None,
    adapter_path: str | Path | None = None,
    lazy: bool = False,
    return_config: Literal[False] = False,
    revision: str | None = None,
    trust_remote_code: bool = False,
    *,
    cpu_weights: CpuWeights = "auto",
) -> tuple[nn.Module, TokenizerWrapper]: ...


@overload
def load(
    path_or_hf_repo: str | Path,
    tokenizer_config: Mapping[str, Any] | None = None,
    model_config: Mapping[str, Any] | None = None,
    adapter_path: str | Path | None = None,
    lazy: bool = False,
    *,
    return_config: Literal[True],
    revision: str | None = None,
    trust_remote_code: bool = False,
    cpu_weights: CpuWeights = "auto",
) -> tuple[nn.Module, TokenizerWrapper, Config]: ...


def load(
    path_or_hf_repo: str | Path,
    tokenizer_config: Mapping[str, Any] | None = None,
    model_config: Mapping[str, Any] | None = None,
    adapter_path: str | Path | None = None,
    lazy: bool = False,
    return_config: bool = False,
    revision: str | None = None,
    trust_remote_code: bool = False,
    *,
    cpu_weights: CpuWeights = "auto",
) -> tuple[nn.Module, TokenizerWrapper] | tuple[nn.Module, TokenizerWrapper, Config]:
    """Load a model and its tokenizer, ready to generate.

    `path_or_hf_repo`: a directory, a `.gguf` file, `package:<import name>` or a hub id.
    `tokenizer_config` and `model_config` override entries of tokenizer_config.json and
    config.json. `lazy` leaves the weights unread until they are used. `trust_remote_code`
    lets the checkpoint run code of its own, for tokenizer and architecture. `cpu_weights`
    is explained in `cpu_policy`. Raises a ModelError that says what to do.
    """
    check_cpu_weights(cpu_weights)
    path = resolve(path_or_hf_repo, revision).path
    file = open_gguf(path) if is_gguf(path) else None
    if file is None:
        # First: transformers takes its time, and says things of its own about other types.
        check_architecture(load_config(path, model_config), path)
    tokenizer_of = partial(
        _tokenizer, path, file, tokenizer_config, (model_config or {}).get("eos_token_id")
    )
    # Importing transformers takes about as long as reading the weights.
    with ThreadPoolExecutor(1, "tokenizer") as executor:
        pending = executor.submit(tokenizer_of, trust_remote_code)
        model, config = _model(
            path, file, lazy, model_config, adapter_path, trust_remote_code, cpu_weights
        )
        tokenizer = pending.result()
    return (model, tokenizer, config) if return_config else (model, tokenizer)


def load_model(
    path: str | Path,
    lazy: bool = False,
    model_config: Mapping[str, Any] | None = None,
    adapter_path: str | Path | None = None,
    trust_remote_code: bool = False,
    *,
    cpu_weights: CpuWeights = "auto",
) -> tuple[nn.Module, Config]:
    """Load the model of a directory or `.gguf` file, and its config, without a tokenizer."""
    check_cpu_weights(cpu_weights)
    path = resolve(path).path
    file = open_gguf(path) if is_gguf(path) else None
    return _model(path, file, lazy, model_config, adapter_path, trust_remote_code, cpu_weights)


def _model(
    path: Path,
    file: GGUFFile | None,
    lazy: bool,
    overrides: Mapping[str, Any] | None,
    adapter_path: str | Path | None,
    trust_remote_code: bool,
    cpu_weights: CpuWeights,
) -> tuple[nn.Module, Config]:
    if file is not None:
        checkpoint = checkpoint_of(file)
        config = merge(checkpoint.config, overrides)
        weights = checkpoint.weights
        if backend() != "cpu":
            weights = to_float16(weights, config["model_type"])
        model = _filled(config, lambda: weights, path, trust_remote_code)
        del checkpoint, weights
    else:
        config = load_config(path, overrides)
        model = _filled(config, partial(read_weights, path), path, trust_remote_code)
    if adapter_path is not None:
        apply_adapters(model, adapter_path)
    apply_cpu_policy(model, cpu_weights)
    if backend() == "cuda":
        choose_products(model)
        compile_steps(model)
    model.eval()
    if not lazy:
        materialize(model)
    return model, config


def _filled(
    config: Config, read: Callable[[], Weights], origin: Path, trust_remote_code: bool
) -> nn.Module:
    """Return the model with its tensors in place, still lazy, the only references to them."""
    settings = read_settings(config)
    blueprint = construct(config, origin, trust_remote_code)
    settings = _renamed(settings, blueprint.rename)
    weights = unpack_whole(blueprint.model, blueprint.sanitize(read()), settings, str(origin))
    quantize_layers(blueprint.model, weights, settings, str(origin))
    assign(blueprint.model, weights, str(origin))
    return blueprint.model


def _renamed(settings: Settings | None, rename: Callable[[str], str]) -> Settings | None:
    """Return the settings with the model's own module paths."""
    if settings is None:
        return None
    return replace(settings, layers={rename(path): how for path, how in settings.layers.items()})


def _tokenizer(
    path: Path,
    file: GGUFFile | None,
    overrides: Mapping[str, Any] | None,
    eos_token_ids: int | list[int] | None,
    trust_remote_code: bool,
) -> TokenizerWrapper:
    if file is None:
        return load_tokenizer(
            path, overrides, eos_token_ids=eos_token_ids, trust_remote_code=trust_remote_code
        )
    return _gguf_tokenizer(file, overrides or {}, eos_token_ids)


def _gguf_tokenizer(
    file: GGUFFile, overrides: Mapping[str, Any], eos_token_ids: int | list[int] | None
) -> TokenizerWrapper:
    given = {key: value for key, value in overrides.items() if value is not None}
    given.pop("trust_remote_code", None)  # a GGUF file brings no code
    metadata = dict(file.metadata)
    if template := given.pop("chat_template", None):
        metadata["tokenizer.chat_template"] = template
    eos_token = given.pop("eos_token", None)
    if given:
        raise TokenizerError(
            f"tokenizer_config has {', '.join(sorted(given))}, which a GGUF file's tokenizer does "
            "not take: only chat_template and eos_token."
        )
    tokenizer = tokenizer_from_gguf(metadata)
    extra = [eos_token_ids] if isinstance(eos_token_ids, int) else eos_token_ids or []
    for token in [eos_token, *extra]:
        if token is not None:
            tokenizer.add_eos_token(token)
    return tokenizer
