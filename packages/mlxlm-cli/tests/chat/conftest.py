"""A model of one attention layer and a tokenizer of one token a character."""

from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlxlm_cache import KVCache, create_attention_mask, scaled_dot_product_attention

USER, END, ASSISTANT, SYSTEM = "\x01", "\x02", "\x03", "\x04"


class Toy(nn.Module):
    """Random weights, rotary positions: what it says depends on all it was fed."""

    def __init__(self, cache: type[KVCache] = KVCache) -> None:
        super().__init__()
        self.embed = nn.Embedding(128, 32)
        self.qkv = nn.Linear(32, 96, bias=False)
        self.head = nn.Linear(32, 128, bias=False)
        self.layers = [self.qkv]
        self._cache = cache

    def make_cache(self) -> list[KVCache]:
        return [self._cache()]

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        h = 6 * self.embed(tokens)
        batch, length, _ = h.shape
        mask = create_attention_mask(h, cache[0])
        q, k, v = mx.split(self.qkv(h).reshape(batch, length, 3, 32), 3, axis=2)
        q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
        at = cache[0].offset
        q, k = (
            mx.fast.rope(x, 32, traditional=False, base=100.0, scale=1.0, offset=at) for x in (q, k)
        )
        k, v = cache[0].update_and_fetch(k, v)
        out = scaled_dot_product_attention(q, k, v, cache=cache[0], scale=0.5, mask=mask)
        return self.head(0.1 * h + out.transpose(0, 2, 1, 3).reshape(batch, length, 32))


class Characters:
    """ASCII; a turn is a role's mark, the text, and the end mark."""

    has_chat_template = True

    def __init__(self, *, strip: bool = False, ends: set[int] | None = None) -> None:
        self.eos_token_ids = {ord(END)} if ends is None else ends
        self._strip = strip

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [ord(c) for c in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(chr(i) for i in ids)

    def apply_chat_template(
        self, messages: list[dict[str, str]], *, add_generation_prompt: bool, tokenize: bool
    ) -> list[int]:
        marks = {"user": USER, "assistant": ASSISTANT, "system": SYSTEM}
        text = ""
        for message in messages:
            content = message["content"]
            if self._strip and message["role"] == "assistant":
                content = content[1:]  # as templates do that leave out the thinking
            text += marks[message["role"]] + content + END
        return self.encode(text + ASSISTANT)


@pytest.fixture
def toy() -> Toy:
    mx.random.seed(3)
    return Toy()


@pytest.fixture
def characters() -> Characters:
    return Characters()
