"""An app with its own model and tokenizer needs mlxlm-cache and mlxlm-generate alone."""

from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlxlm_cache import (
    Cache,
    RotatingQuantizedKVCache,
    create_attention_mask,
    load_prompt_cache,
    make_prompt_cache,
    read_prompt_file,
    save_prompt_cache,
    scaled_dot_product_attention,
    trim_prompt_cache,
)
from mlxlm_generate import generate, generate_step, stream_generate
from mlxlm_sample import make_sampler

HEADS, HEAD_DIM, VOCAB = 2, 32, 257
END = 256


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        width = HEADS * HEAD_DIM
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm = nn.RMSNorm(width)
        self.rope = nn.RoPE(HEAD_DIM)

    def __call__(self, x: mx.array, mask: mx.array | str | None, cache: Cache | None) -> mx.array:
        batch, length, _ = x.shape
        shape = (batch, length, 3, HEADS, HEAD_DIM)
        queries, keys, values = self.qkv(self.norm(x)).reshape(shape).transpose(2, 0, 3, 1, 4)
        offset = cache.offset if cache is not None else 0
        queries, keys = self.rope(queries, offset=offset), self.rope(keys, offset=offset)
        if cache is not None:
            keys, values = cache.update_and_fetch(keys, values)
        out = scaled_dot_product_attention(
            queries, keys, values, cache, scale=HEAD_DIM**-0.5, mask=mask
        )
        return x + self.out(out.transpose(0, 2, 1, 3).reshape(batch, length, -1))


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, HEADS * HEAD_DIM)
        self.layers = [Block() for _ in range(2)]

    def __call__(self, tokens: mx.array, cache: list[Cache] | None = None) -> mx.array:
        x = self.embed(tokens)
        mask = create_attention_mask(x, cache[0] if cache else None)
        for layer, own in zip(self.layers, cache or [None] * len(self.layers), strict=True):
            x = layer(x, mask, own)
        return self.embed.as_linear(x)


class Bytes:
    eos_token_ids = frozenset({END})

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: list[int]) -> str:
        return bytes(token for token in tokens if token < END).decode(errors="replace")


@pytest.fixture(scope="module")
def model() -> Tiny:
    mx.random.seed(7)
    model = Tiny()
    mx.eval(model.parameters())
    return model


def test_nothing_else_is_installed() -> None:
    names = {distribution.name.lower().replace("_", "-") for distribution in distributions()}
    assert {name for name in names if name.startswith("mlxlm")} == {
        "mlxlm-cache",
        "mlxlm-generate",
        "mlxlm-sample",
    }
    for absent in ("transformers", "tokenizers", "huggingface_hub", "numpy", "mlxlm_models"):
        assert find_spec(absent) is None, absent


def test_generates_text(model: Tiny) -> None:
    whole = generate(model, Bytes(), "hello", max_tokens=24)
    pieces = list(stream_generate(model, Bytes(), "hello", max_tokens=24))
    assert "".join(piece.text for piece in pieces) == whole
    assert pieces[-1].finish_reason == "length"
    assert pieces[-1].generation_tokens == 24


def test_samples_with_a_key(model: Tiny) -> None:
    def draw() -> str:
        sampler = make_sampler(temp=1.0, top_p=0.9, key=mx.random.key(3))
        return generate(model, Bytes(), "hello", max_tokens=16, sampler=sampler)

    assert draw() == draw()


def test_trims_saves_and_resumes(model: Tiny, tmp_path: Path) -> None:
    prompt = mx.array(list(b"the quick brown fox"))
    plain = [int(token) for token, _ in generate_step(prompt, model, max_tokens=8)]

    cache = make_prompt_cache(model)
    list(generate_step(prompt, model, max_tokens=8, prompt_cache=cache))
    # Back to the prompt less its last token, which the next call computes again.
    held = cache[0].offset
    assert trim_prompt_cache(cache, held - (prompt.size - 1)) == held - (prompt.size - 1)
    file = tmp_path / "prompt.safetensors"
    save_prompt_cache(str(file), cache, {"app": "tiny"})

    again, metadata = load_prompt_cache(str(file), return_metadata=True)
    assert metadata["app"] == "tiny"
    resumed = generate_step(prompt[-1:], model, max_tokens=8, prompt_cache=again)
    assert [int(token) for token, _ in resumed] == plain


class Chat:
    """A conversation in a window of 4-bit keys and values; `tokens` are all that it has seen."""

    def __init__(self, model: Tiny, cache: list[Cache], tokens: list[int]) -> None:
        self.model, self.cache, self.tokens = model, cache, tokens

    def say(self, text: str) -> str:
        prompt = Bytes().encode(text)
        responses = list(
            stream_generate(
                self.model,
                Bytes(),
                prompt,
                max_tokens=20,
                prompt_cache=self.cache,
                kv_bits=4,
                kv_group_size=32,
                quantized_kv_start=0,
            )
        )
        self.tokens += prompt + [r.token for r in responses if r.token is not None]
        return "".join(response.text for response in responses)

    def save(self, file: Path) -> None:
        save_prompt_cache(file, self.cache, {"app": "tiny"}, tokens=self.tokens, model="tiny")

    @classmethod
    def resumed(cls, model: Tiny, file: Path) -> "Chat":
        saved = read_prompt_file(file)
        assert (saved.model, saved.metadata, saved.kv_bits) == ("tiny", {"app": "tiny"}, 4)
        return cls(model, saved.cache, saved.tokens or [])


def test_a_chat_in_a_quantized_window_goes_on_from_a_file(model: Tiny, tmp_path: Path) -> None:
    said = ["hello there, who are you?", "and then?", "what did I say before that?"]
    chat = Chat(model, make_prompt_cache(model, max_kv_size=32), [])
    expected = [chat.say(text) for text in said]
    assert all(isinstance(cache, RotatingQuantizedKVCache) for cache in chat.cache)
    assert chat.cache[0].offset == len(chat.tokens) > 3 * 32
    assert chat.cache[0].size() == 32

    file = tmp_path / "chat.safetensors"
    chat = Chat(model, make_prompt_cache(model, max_kv_size=32), [])
    answers = []
    for text in said:
        answers.append(chat.say(text))
        chat.save(file)
        chat = Chat.resumed(model, file)
    assert answers == expected
    assert chat.tokens == read_prompt_file(file).tokens
    forgetful = Chat(model, make_prompt_cache(model, max_kv_size=32), [])
    assert forgetful.say(said[-1]) != expected[-1]
