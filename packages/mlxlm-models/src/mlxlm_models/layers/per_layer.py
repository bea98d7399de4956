"""Decoders whose layers also read an embedding each, and share keys and values (Gemma 3n, 4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlxlm_cache import Cache, Mask

from mlxlm_models.layers.activations import ACTIVATIONS
from mlxlm_models.layers.block import BlockSpec, DecoderBlock
from mlxlm_models.layers.decoder import Decoder, DecoderSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.shared_keys import Seen, SharedAttention


@dataclass(frozen=True, kw_only=True)
class PerLayerDecoderSpec(DecoderSpec):
    """`sources` says whose keys and values each layer attends to; None for its own.

    With `per_layer_size`, each layer reads a vector of that size per token: from an
    embedding of `per_layer_vocab` tokens, and projected from the token's main embedding.
    """

    sources: tuple[int | None, ...]
    per_layer_size: int = 0
    per_layer_vocab: int = 0
    per_layer_norm: NormSpec = NormSpec(1e-6)

    def build(self) -> "PerLayerDecoder":
        return PerLayerDecoder(self)


class PerLayerDecoder(Decoder):
    """A cache is needed for each layer with keys of its own, in their order."""

    def __init__(self, spec: PerLayerDecoderSpec) -> None:
        super().__init__(spec)
        self._sources = spec.sources
        self._size, self._vocab = spec.per_layer_size, spec.per_layer_vocab
        self._shape = (len(spec.layers), self._size)
        self._projection_scale = spec.hidden_size**-0.5
        if self._size:
            total = len(spec.layers) * self._size
            self.embed_tokens_per_layer = nn.Embedding(self._vocab, total)
            self.per_layer_model_projection = nn.Linear(spec.hidden_size, total, bias=False)
            self.per_layer_projection_norm = spec.per_layer_norm.build(self._size)

    def __call__(
        self,
        tokens: mx.array,
        cache: Sequence[Cache | None] | None = None,
        input_embeddings: mx.array | None = None,
    ) -> mx.array:
        caches = self._spread_caches(cache)
        h = self.embed(tokens, caches[0], input_embeddings)
        inputs = self.per_layer_inputs(tokens, h) if self._size else None
        masks = self._mask_plan.masks(h, caches)
        seen: dict[int, Seen] = {}
        h = self.widen(h)
        for i, layer in enumerate(self[self._names.layers]):
            source = self._sources[i]
            own = None if inputs is None else inputs[:, :, i]
            if source is None:
                h, seen[i] = layer.step(h, masks[i], caches[i], own)
            else:
                h, _ = layer.step(h, masks[i], seen[source], own)
        h = self.narrow(h)
        return h if self._norm is None else self[self._norm](h)

    def per_layer_inputs(self, tokens: mx.array, h: mx.array) -> mx.array:
        """Return (B, L, layers, size) for tokens (B, L) and their embeddings h."""
        known = mx.where(tokens < self._vocab, tokens, 0)
        looked_up = self["embed_tokens_per_layer"](known) * self._size**0.5
        projected = self["per_layer_model_projection"](h) * self._projection_scale
        projected = self["per_layer_projection_norm"](mx.unflatten(projected, -1, self._shape))
        return (projected + mx.unflatten(looked_up, -1, self._shape)) * 2**-0.5  # type: ignore[no-any-return]

    def widen(self, h: mx.array) -> mx.array:
        """Return what the first layer reads for the embeddings."""
        return h

    def narrow(self, h: mx.array) -> mx.array:
        """Return the hidden states that the last norm reads."""
        return h

    def make_cache(self) -> list[Cache]:
        layers = zip(self[self._names.layers], self._sources, strict=True)
        return [layer.make_cache() for layer, source in layers if source is None]

    def _spread_caches(self, cache: Sequence[Cache | None] | None) -> list[Cache | None]:
        own = [i for i, source in enumerate(self._sources) if source is None]
        caches: list[Cache | None] = [None] * len(self._sources)
        if cache is None:
            return caches
        if len(cache) != len(own):
            raise ValueError(
                f"a cache of {len(cache)} layers for a model with {len(own)} that need one: "
                f"make it with make_prompt_cache(model)"
            )
        for i, layer_cache in zip(own, cache, strict=True):
            caches[i] = layer_cache
        return caches


@dataclass(frozen=True, kw_only=True)
class PerLayerBlockSpec(BlockSpec):
    """A block that ends by adding, through a gate, what comes from its own embedding.

    `scaled` multiplies the whole stream by a stored number at the end.
    """

    per_layer_size: int = 0
    activation: str = "gelu_pytorch_tanh"
    scaled: bool = False

    def build(self) -> "PerLayerBlock":
        return PerLayerBlock(self)


class PerLayerBlock(DecoderBlock):
    """`step` takes (x, mask, cache or what was seen, own input) and returns x and what was seen."""

    def __init__(self, spec: PerLayerBlockSpec) -> None:
        super().__init__(spec)
        hidden = spec.attention.hidden_size
        self._reads_own = spec.per_layer_size > 0
        if self._reads_own:
            self.per_layer_input_gate = nn.Linear(hidden, spec.per_layer_size, bias=False)
            self.per_layer_projection = nn.Linear(spec.per_layer_size, hidden, bias=False)
            self.post_per_layer_input_norm = spec.norm.build(hidden)
        self._activation = ACTIVATIONS[spec.activation]
        self._scaled = spec.scaled
        if spec.scaled:
            self.layer_scalar = mx.ones((1,))

    def step(
        self, x: mx.array, mask: Mask, cache: Any, own: mx.array | None
    ) -> tuple[mx.array, Any]:
        attended, seen = self.attended(self[self._before_attention](x), mask, cache)
        x = x + self._added(attended, self._after_attention)
        x = x + self._added(self.fed_forward(x), self._after_mlp)
        if own is not None:
            x = x + self.from_own(x, own)
        return (x * self["layer_scalar"] if self._scaled else x), seen

    def attended(self, h: mx.array, mask: Mask, cache: Any) -> tuple[mx.array, Any]:
        attention = self[self._attention]
        if isinstance(attention, SharedAttention):
            return attention.attend(h, mask, cache), cache
        offset = 0 if cache is None else cache.offset
        out, keys_values = attention.attend(h, mask, cache)
        return out, Seen(keys_values, cache, offset)

    def fed_forward(self, x: mx.array) -> mx.array:
        return self[self._mlp](self[self._before_mlp](x))  # type: ignore[no-any-return]

    def from_own(self, x: mx.array, own: mx.array) -> mx.array:
        h = self._activation(self["per_layer_input_gate"](x)) * own
        return self["post_per_layer_input_norm"](self["per_layer_projection"](h))  # type: ignore[no-any-return]
