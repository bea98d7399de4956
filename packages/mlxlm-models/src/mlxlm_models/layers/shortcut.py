"""Layers of two halves with experts on a shortcut past the second (LongCat-Flash, 2025)."""

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlxlm_cache import Cache, CacheList, Mask

from mlxlm_models.layers.block import FeedForwardSpec, MixerSpec
from mlxlm_models.layers.module import Module
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.plan import Plan, ScaleGroup

_HALVES = range(2)
_BEFORE, _AFTER = "input_layernorm", "post_attention_layernorm"


@dataclass(frozen=True, kw_only=True)
class ShortcutBlockSpec:
    """Both halves have `attention` and `mlp`; `experts` read what the first `mlp` reads."""

    attention: MixerSpec
    mlp: FeedForwardSpec
    experts: FeedForwardSpec
    norm: NormSpec

    def plan(self) -> Plan:
        total = self.experts.plan().under("mlp")
        for half in _HALVES:
            attention, mlp = f"self_attn.{half}", f"mlps.{half}"
            first = tuple(f"{attention}.{name}" for name in self.attention.readers())
            groups = [ScaleGroup(f"{_BEFORE}.{half}", first, attention)]
            if half:  # the first's are read by the experts too, and no module has both
                second = tuple(f"{mlp}.{name}" for name in self.mlp.readers())
                groups.append(ScaleGroup(f"{_AFTER}.{half}", second, mlp))
            total += Plan(scale_groups=tuple(groups))
            total += self.attention.plan().under(attention) + self.mlp.plan().under(mlp)
        return total

    def build(self) -> "ShortcutBlock":
        return ShortcutBlock(self)


class ShortcutBlock(Module):
    """The cache is a list of two, one of each half."""

    def __init__(self, spec: ShortcutBlockSpec) -> None:
        super().__init__()
        self.spec = spec
        hidden = spec.attention.hidden_size
        self.mlp = spec.experts.build()
        self.self_attn = [spec.attention.build() for _ in _HALVES]
        self.mlps = [spec.mlp.build() for _ in _HALVES]
        self[_BEFORE] = [spec.norm.build(hidden) for _ in _HALVES]
        self[_AFTER] = [spec.norm.build(hidden) for _ in _HALVES]

    def __call__(self, x: mx.array, mask: Mask = None, cache: CacheList | None = None) -> mx.array:
        shortcut: Any = None
        for half in _HALVES:
            own = None if cache is None else cache[half]
            x = x + self["self_attn"][half](self[_BEFORE][half](x), mask, own)
            h = self[_AFTER][half](x)
            shortcut = self["mlp"](h) if shortcut is None else shortcut
            x = x + self["mlps"][half](h)
        return x + shortcut  # type: ignore[no-any-return]

    def make_cache(self) -> Cache:
        return CacheList(*(attention.make_cache() for attention in self["self_attn"]))
