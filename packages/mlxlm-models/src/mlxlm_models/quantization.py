"""Give a model the quantized layers that its checkpoint has.

A layer is quantized where the checkpoint has `{path}.scales`; how, say `quantization` in
config.json and its per-layer entries.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from mlxlm_models.errors import ConfigError, WeightsError

MODES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "affine": ((32, 64, 128), (2, 3, 4, 5, 6, 8)),
    "mxfp4": ((32,), (4,)),
    "nvfp4": ((16,), (4,)),
    "mxfp8": ((32,), (8,)),
}
"""Group sizes and bits that MLX computes with, by mode."""

DEFAULTS = {"affine": (64, 4), "mxfp4": (32, 4), "nvfp4": (16, 4), "mxfp8": (32, 8)}
"""Group size and bits of a mode where a config leaves them out."""


@dataclass(frozen=True)
class Quantization:
    """How one layer is quantized: `bits` per weight, one scale per `group_size` weights."""

    group_size: int
    bits: int
    mode: str = "affine"

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any], where: str) -> "Quantization":
        mode = settings.get("mode", "affine")
        if mode not in MODES:
            raise ConfigError(f"{where}: unknown mode {mode!r}, known are {', '.join(MODES)}.")
        group_size = settings.get("group_size") or DEFAULTS[mode][0]
        bits = settings.get("bits") or DEFAULTS[mode][1]
        sizes, widths = MODES[mode]
        if group_size not in sizes or bits not in widths:
            raise ConfigError(
                f"{where}: {mode} with group_size {group_size} and bits {bits} is not computed "
                f"here, known are group_size {sizes} and bits {widths}."
            )
        return cls(group_size, bits, mode)


@dataclass(frozen=True)
class Settings:
    """The default and what single layers deviate by."""

    default: Quantization
    layers: Mapping[str, Quantization]

    def of(self, path: str) -> Quantization:
        return self.layers.get(path, self.default)


FOREIGN = {"mxfp4": Quantization(32, 4, "mxfp4")}
"""What other libraries' `quant_method` means, where MLX computes with the same bits."""


def read_settings(config: Mapping[str, Any]) -> Settings | None:
    """Return `quantization` of a model config (or MLX's copy of it in `quantization_config`).

    None for an unquantized checkpoint. Raises ConfigError, also for a method of other
    libraries' `quantization_config` that is not in `FOREIGN`.
    """
    key = "quantization"
    settings = config.get(key)
    if not settings:
        key = "quantization_config"
        settings = config.get(key)
    if not settings:
        return None
    if not isinstance(settings, Mapping):
        raise ConfigError(f"`{key}` in the config is {settings!r}, an object is needed.")
    if key == "quantization_config" and (method := settings.get("quant_method")):
        if method in FOREIGN:
            return Settings(FOREIGN[method], {})
        raise ConfigError(
            f"The checkpoint is quantized with {method!r}, which is not read here: "
            "use its MLX version, or the unquantized original."
        )
    layers = {
        path: Quantization.from_dict(entry, f"`{key}` of {path!r}")
        for path, entry in settings.items()
        if isinstance(entry, Mapping)
    }
    return Settings(Quantization.from_dict(settings, f"`{key}`"), layers)


def unpack_whole(
    model: nn.Module, weights: Mapping[str, mx.array], settings: Settings | None, origin: str
) -> dict[str, mx.array]:
    """Return `weights`, unpacked in float32 where a layer of `model` is never quantized (`whole`).

    Converted checkpoints may have a router's gate packed like any layer. Lazy; WeightsError as
    in `quantize_layers`.
    """
    result = dict(weights)
    if settings is None:
        return result
    for path, module in model.named_modules():
        if getattr(module, "whole", False) and f"{path}.scales" in weights:
            how = settings.of(path)
            _check_shapes(path, module, weights, how, origin)
            packed, scales = result[f"{path}.weight"], result.pop(f"{path}.scales")
            biases = result.pop(f"{path}.biases", None)
            result[f"{path}.weight"] = mx.dequantize(
                packed, scales, biases, how.group_size, how.bits, mode=how.mode, dtype=mx.float32
            )
    return result


def quantize_layers(
    model: nn.Module, weights: Mapping[str, mx.array], settings: Settings | None, origin: str
) -> None:
    """Replace layers of `model` by quantized ones where `weights` has their scales.

    Their contents are placeholders, never to be evaluated. Raises WeightsError naming a
    layer whose tensors do not fit its settings.
    """
    paths = {name.removesuffix(".scales") for name in weights if name.endswith(".scales")}
    if not paths:
        return
    if settings is None:
        raise WeightsError(
            f"{origin} has quantized tensors ({min(paths)}.scales and others) but its config has "
            "no `quantization`: pass it through model_config."
        )

    def how(path: str, module: nn.Module) -> bool | dict[str, Any]:
        if path not in paths or not hasattr(module, "to_quantized"):
            return False
        quantization = settings.of(path)
        _check_shapes(path, module, weights, quantization, origin)
        return asdict(quantization)

    nn.quantize(model, class_predicate=how)


def _check_shapes(
    path: str,
    module: nn.Module,
    weights: Mapping[str, mx.array],
    quantization: Quantization,
    origin: str,
) -> None:
    dims: int = module.weight.shape[-1]
    packed, scales = weights.get(f"{path}.weight"), weights[f"{path}.scales"]
    if packed is None:
        return  # reported with all the other missing tensors
    columns = dims * quantization.bits // 32
    groups = dims // quantization.group_size
    if (packed.shape[-1], scales.shape[-1]) == (columns, groups):
        return
    bits = 32 * packed.shape[-1] / dims
    raise WeightsError(
        f"{origin}: layer {path!r} is stored with {bits:g} bits and group size "
        f"{dims / scales.shape[-1]:g} (weight {packed.shape}, scales {scales.shape}, "
        f"{dims} inputs), its config says {quantization.bits} bits and group size "
        f"{quantization.group_size}. Correct `quantization` in config.json."
    )
