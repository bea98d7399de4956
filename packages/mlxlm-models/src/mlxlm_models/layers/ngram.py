"""Embeddings of a token together with those before it, hashed (LongCat-Flash-Lite, 2026)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlxlm_cache import ArraysCache, Cache

from mlxlm_models.layers.decoder import Decoder, DecoderSpec
from mlxlm_models.layers.module import Module


@dataclass(frozen=True, kw_only=True)
class NgramSpec:
    """n-grams of 2 to `longest` tokens, each in `tables` tables of about `rows` rows.

    An n-gram doesn't reach back beyond a token of `ends`, nor past the start of the text.
    """

    vocab_size: int
    hidden_size: int
    longest: int
    tables: int
    rows: int
    ends: tuple[int, ...]


class NgramEmbedding(Module):
    """Tokens (B, L) → (B, L, hidden): the mean of the token's own and its n-grams' embeddings."""

    def __init__(self, spec: NgramSpec) -> None:
        super().__init__()
        self._spec = spec
        count = spec.tables * (spec.longest - 1)
        size = spec.hidden_size // count
        self.word_embeddings = nn.Embedding(spec.vocab_size, spec.hidden_size)
        # Tables of sizes that have no factor in common send n-grams to different rows.
        self._rows = [spec.rows + 2 * i + 1 for i in range(count)]
        self.embedders = [nn.Embedding(rows, size) for rows in self._rows]
        self.post_projs = [nn.Linear(size, spec.hidden_size, bias=False) for _ in self._rows]

    def __call__(self, tokens: mx.array, state: Any = None) -> mx.array:
        """`state`, an ArraysCache, holds the tokens before these, and is moved on."""
        spec, length = self._spec, tokens.shape[1]
        seen = self.extended(tokens, state)
        back = spec.longest - 1
        within: Any = True
        earlier = []
        for shift in range(1, spec.longest):
            before = seen[:, back - shift : back - shift + length]
            for end in spec.ends:
                within = (before != end) & within
            earlier.append(mx.where(within, before, 0))
        own = seen[:, back:]
        x = self["word_embeddings"](tokens)
        for index, rows in enumerate(self._rows):
            hashed, weight = own, 1
            for before in earlier[: index // spec.tables + 1]:
                weight = weight * spec.vocab_size % rows
                hashed = hashed + before * weight
            found = self["embedders"][index](hashed % rows)
            x = x + self["post_projs"][index](found)
        return x / (1 + len(self._rows))  # type: ignore[no-any-return]

    def extended(self, tokens: mx.array, state: Any) -> mx.array:
        """Return tokens, 0 for padding, after those that n-grams may reach; move `state` on."""
        batch, length = tokens.shape
        back = self._spec.longest - 1
        tokens = tokens.astype(mx.int64)
        before = None if state is None else state[0]
        if before is None:
            before = mx.zeros((batch, back), mx.int64)
        real = None if state is None else state.make_mask(length)
        if real is not None:
            tokens = mx.where(real, tokens, 0)
        seen = mx.concatenate([before.astype(mx.int64), tokens], axis=1)
        if state is not None:
            ends = state.lengths
            # The state after every token is one to go back to, where any may be taken back.
            steps = range(1, length + 1) if state.recording else (length,)
            for step in steps:
                if ends is None:
                    state[0] = seen[:, step : step + back]
                else:
                    places = mx.minimum(ends, step)[:, None] + mx.arange(back)
                    state[0] = mx.take_along_axis(seen, places, axis=1)
                state.advance(length // len(steps))
        return seen


@dataclass(frozen=True, kw_only=True)
class NgramDecoderSpec(DecoderSpec):
    ngrams: NgramSpec

    def build(self) -> "NgramDecoder":
        return NgramDecoder(self)


class NgramDecoder(Decoder):
    """The first cache holds the latest tokens, the others are those of the layers."""

    def __init__(self, spec: NgramDecoderSpec) -> None:
        super().__init__(spec)
        self[spec.names.embeddings] = NgramEmbedding(spec.ngrams)

    def __call__(
        self,
        tokens: mx.array,
        cache: Sequence[Cache | None] | None = None,
        input_embeddings: mx.array | None = None,
    ) -> mx.array:
        """See `Decoder`."""
        embedding, count = self[self._names.embeddings], len(self[self._names.layers])
        if cache is None:
            cache = [None] * (count + 1)
        elif len(cache) != count + 1:
            raise ValueError(
                f"a cache of {len(cache)} layers for a model of {count} and its n-grams: "
                f"make it with make_prompt_cache(model)"
            )
        if input_embeddings is None:
            input_embeddings = embedding(tokens, cache[0])
        else:
            embedding.extended(tokens, cache[0])
        return super().__call__(tokens, cache[1:], input_embeddings)

    def make_cache(self) -> list[Cache]:
        return [ArraysCache(1), *super().make_cache()]
