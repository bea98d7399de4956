"""The decoder stack, and the causal language model on top of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlxlm_cache import Cache, Mask

from mlxlm_models.layers.block import BlockSpec, DecoderBlock
from mlxlm_models.layers.masks import MaskPlan
from mlxlm_models.layers.module import Module
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.softcap import soft_cap


@dataclass(frozen=True)
class DecoderNames:
    """Names of a model's parts; `head` is beside the decoder, or in it with `head_inside`."""

    decoder: str = "model"
    embeddings: str = "embed_tokens"
    embedding_norm: str = "embed_layer_norm"
    positions: str = "wpe"
    layers: str = "layers"
    norm: str = "norm"
    head: str = "lm_head"
    head_inside: bool = False


@dataclass(frozen=True, kw_only=True)
class DecoderSpec:
    """A whole model.

    `positions` is how many learned position embeddings there are, if any, of which the
    first `position_offset` stand before position 0. `embedding_scale` multiplies the
    embeddings, rounded to their dtype; `embedding_norm` normalises them. `tied` reuses the
    embedding matrix as the output head. Logits are multiplied by `logit_scale`, then bounded
    by `logit_soft_cap`.
    """

    vocab_size: int
    hidden_size: int
    layers: tuple[BlockSpec, ...]
    norm: NormSpec | None
    tied: bool
    positions: int | None = None
    position_offset: int = 0
    embedding_scale: float | None = None
    embedding_norm: NormSpec | None = None
    head_bias: bool = False
    logit_scale: float | None = None
    logit_soft_cap: float | None = None
    names: DecoderNames = DecoderNames()

    def build(self) -> "Decoder":
        return Decoder(self)


class Decoder(Module):
    """Tokens (B, L) → normalised hidden states (B, L, hidden)."""

    def __init__(self, spec: DecoderSpec) -> None:
        super().__init__()
        names = spec.names
        self._names = names
        self[names.embeddings] = nn.Embedding(spec.vocab_size, spec.hidden_size)
        self._offset = spec.position_offset if spec.positions else None
        if spec.positions:
            self[names.positions] = nn.Embedding(spec.positions, spec.hidden_size)
        self._embedding_norm = names.embedding_norm if spec.embedding_norm else None
        if spec.embedding_norm:
            self[names.embedding_norm] = spec.embedding_norm.build(spec.hidden_size)
        self[names.layers] = [layer.build() for layer in spec.layers]
        self._norm = names.norm if spec.norm else None
        if spec.norm:
            self[names.norm] = spec.norm.build(spec.hidden_size)
        if names.head_inside and not spec.tied:
            self[names.head] = nn.Linear(spec.hidden_size, spec.vocab_size, bias=spec.head_bias)
        self._embedding_scale = spec.embedding_scale
        self._mask_plan = MaskPlan([layer.attention for layer in spec.layers])

    def __call__(
        self,
        tokens: mx.array,
        cache: Sequence[Cache | None] | None = None,
        input_embeddings: mx.array | None = None,
    ) -> mx.array:
        """`input_embeddings` (B, L, hidden) are used in place of the tokens' own.

        They are what the embedding layer gives: a model that scales its embeddings scales
        these.
        """
        layers = self[self._names.layers]
        if cache is None:
            cache = [None] * len(layers)
        elif len(cache) != len(layers):
            raise ValueError(
                f"a cache of {len(cache)} layers for a model of {len(layers)}: "
                f"make it with make_prompt_cache(model)"
            )
        h = self.embed(tokens, next(iter(cache), None), input_embeddings)
        h = self.through_layers(h, self._mask_plan.masks(h, cache), cache)
        return h if self._norm is None else self[self._norm](h)

    def through_layers(
        self, h: mx.array, masks: Sequence[Mask], cache: Sequence[Cache | None]
    ) -> mx.array:
        """Return what the last layer puts out for h."""
        for layer, mask, own in zip(self[self._names.layers], masks, cache, strict=True):
            h = layer(h, mask, own)
        return h

    def make_cache(self) -> list[Cache]:
        """Return one empty cache per layer: rotating ones for layers with a window."""
        return [layer.make_cache() for layer in self[self._names.layers]]

    def embed(
        self, tokens: mx.array, cache: Cache | None, input_embeddings: mx.array | None
    ) -> mx.array:
        """Return what the first layer reads."""
        h: mx.array
        h = self[self._names.embeddings](tokens) if input_embeddings is None else input_embeddings
        if self._embedding_scale is not None:
            h = h * self._embedding_scale
        if self._offset is not None:
            first: Any = 0 if cache is None else cache.offset
            positions = mx.arange(h.shape[1])
            if isinstance(first, int):
                positions = positions + first
            else:  # what comes before a sequence's first token is padding
                positions = mx.maximum(positions + first[:, None], 0)
            h = h + self[self._names.positions](positions + self._offset)
        return h if self._embedding_norm is None else self[self._embedding_norm](h)


class CausalLM(Module):
    """Tokens (B, L) → logits (B, L, vocabulary); `model` alone gives the hidden states."""

    def __init__(self, spec: DecoderSpec) -> None:
        super().__init__()
        self.spec = spec
        self._decoder = spec.names.decoder
        self[self._decoder] = spec.build()
        self._head_inside = spec.names.head_inside
        if not spec.tied and not self._head_inside:
            head = nn.Linear(spec.hidden_size, spec.vocab_size, bias=spec.head_bias)
            self[spec.names.head] = head
        self._tied = spec.tied
        self._logit_scale = spec.logit_scale
        self._soft_cap = spec.logit_soft_cap

    def __call__(
        self,
        tokens: mx.array,
        cache: Sequence[Cache | None] | None = None,
        input_embeddings: mx.array | None = None,
    ) -> mx.array:
        return self.logits(self[self._decoder](tokens, cache, input_embeddings))

    def logits(self, hidden: mx.array) -> mx.array:
        """Return the logits of normalised hidden states (…, hidden)."""
        names = self.spec.names
        if self._tied:
            out = self[self._decoder][names.embeddings].as_linear(hidden)
        else:
            out = (self[self._decoder] if self._head_inside else self)[names.head](hidden)
        if self._logit_scale is not None:
            out = out * self._logit_scale
        return out if self._soft_cap is None else soft_cap(out, self._soft_cap)

    @property
    def model(self) -> Decoder:
        """The decoder, whatever it is called."""
        return self[self._decoder]  # type: ignore[no-any-return]

    @property
    def layers(self) -> list[DecoderBlock]:
        return self.model[self.spec.names.layers]  # type: ignore[no-any-return]

    def make_cache(self) -> list[Cache]:
        return self.model.make_cache()
