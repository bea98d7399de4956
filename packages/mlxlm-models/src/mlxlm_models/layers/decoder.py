"""The decoder stack, and the causal language model on top of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn
from mlxlm_cache import Cache

from mlxlm_models.layers.block import BlockSpec, DecoderBlock
from mlxlm_models.layers.masks import MaskPlan
from mlxlm_models.layers.module import Module
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.softcap import soft_cap


@dataclass(frozen=True, kw_only=True)
class DecoderSpec:
    """A whole model.

    `embedding_scale` multiplies the embeddings, rounded to their dtype. `tied` reuses the
    embedding matrix as the output head. `logit_soft_cap` bounds the logits.
    """

    vocab_size: int
    hidden_size: int
    layers: tuple[BlockSpec, ...]
    norm: NormSpec
    tied: bool
    embedding_scale: float | None = None
    logit_soft_cap: float | None = None


class Decoder(Module):
    """Tokens (B, L) → normalised hidden states (B, L, hidden)."""

    def __init__(self, spec: DecoderSpec) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(spec.vocab_size, spec.hidden_size)
        self.layers = [layer.build() for layer in spec.layers]
        self.norm = spec.norm.build(spec.hidden_size)
        self._embedding_scale = spec.embedding_scale
        self._mask_plan = MaskPlan([layer.attention for layer in spec.layers])

    def __call__(
        self,
        tokens: mx.array,
        cache: Sequence[Cache | None] | None = None,
        input_embeddings: mx.array | None = None,
    ) -> mx.array:
        """`input_embeddings` (B, L, hidden) are used in place of the tokens' own.

        They are what `embed_tokens` gives: a model that scales its embeddings scales these.
        """
        h: mx.array = self["embed_tokens"](tokens) if input_embeddings is None else input_embeddings
        if self._embedding_scale is not None:
            h = h * self._embedding_scale
        layers = self["layers"]
        if cache is None:
            cache = [None] * len(layers)
        elif len(cache) != len(layers):
            raise ValueError(
                f"a cache of {len(cache)} layers for a model of {len(layers)}: "
                f"make it with make_prompt_cache(model)"
            )
        for layer, mask, layer_cache in zip(
            layers, self._mask_plan.masks(h, cache), cache, strict=True
        ):
            h = layer(h, mask, layer_cache)
        return self["norm"](h)  # type: ignore[no-any-return]


class CausalLM(Module):
    """Tokens (B, L) → logits (B, L, vocabulary); `model` alone gives the hidden states."""

    def __init__(self, spec: DecoderSpec) -> None:
        super().__init__()
        self.spec = spec
        self.model = Decoder(spec)
        if not spec.tied:
            self.lm_head = nn.Linear(spec.hidden_size, spec.vocab_size, bias=False)
        self._tied = spec.tied
        self._soft_cap = spec.logit_soft_cap

    def __call__(
        self,
        tokens: mx.array,
        cache: Sequence[Cache | None] | None = None,
        input_embeddings: mx.array | None = None,
    ) -> mx.array:
        return self.logits(self["model"](tokens, cache, input_embeddings))

    def logits(self, hidden: mx.array) -> mx.array:
        """Return the logits of normalised hidden states (…, hidden)."""
        if self._tied:
            out = self["model"]["embed_tokens"].as_linear(hidden)
        else:
            out = self["lm_head"](hidden)
        return out if self._soft_cap is None else soft_cap(out, self._soft_cap)

    @property
    def layers(self) -> list[DecoderBlock]:
        return self.model.layers

    def make_cache(self) -> list[Cache]:
        """Return one empty cache per layer: rotating ones for layers with a window."""
        return [layer.make_cache() for layer in self.layers]
