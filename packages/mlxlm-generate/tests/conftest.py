"""A tiny language model and a byte tokenizer, as an application might bring them."""

from mlxlm_cache.device import preload_blas

preload_blas()

from collections.abc import Callable, Sequence  # noqa: E402
from typing import Any  # noqa: E402

import mlx.core as mx  # noqa: E402
import mlx.nn as nn  # noqa: E402
import pytest  # noqa: E402
from mlxlm_cache import (  # noqa: E402
    ArraysCache,
    Cache,
    CacheList,
    KVCache,
    RotatingKVCache,
    create_attention_mask,
    scaled_dot_product_attention,
)

WIDTH, HEADS, VOCAB = 64, 2, 258  # heads of 32, which quantize in groups of 32
BOS, EOS = 256, 257


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH)
        )
        self.rope = nn.RoPE(WIDTH // HEADS)

    def __call__(self, x: mx.array, cache: Cache | None) -> mx.array:
        batch, length, _ = x.shape
        mask = create_attention_mask(x, cache)
        h = mx.fast.rms_norm(x, None, 1e-5)
        qkv = self.qkv(h).reshape(batch, length, 3, HEADS, -1).transpose(2, 0, 3, 1, 4)
        offset = cache.offset if cache is not None else 0
        q, k, v = self.rope(qkv[0], offset=offset), self.rope(qkv[1], offset=offset), qkv[2]
        if cache is not None:
            k, v = cache.update_and_fetch(k, v)
        h = scaled_dot_product_attention(q, k, v, cache, q.shape[-1] ** -0.5, mask)
        x = x + self.out(h.transpose(0, 2, 1, 3).reshape(batch, length, -1))
        return x + self.mlp(mx.fast.rms_norm(x, None, 1e-5))


class Recurrence(nn.Module):
    """A decaying sum of what came, as in a state-space layer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def __call__(self, x: mx.array, cache: Any) -> mx.array:
        batch, length, _ = x.shape
        mask = None if cache is None else cache.make_mask(length)
        state = mx.zeros((batch, WIDTH)) if cache is None or cache[0] is None else cache[0]
        new = self.inner(mx.fast.rms_norm(x, None, 1e-5))
        steps = []
        for i in range(length):
            following = 0.8 * state + new[:, i]
            state = following if mask is None else mx.where(mask[:, i : i + 1], following, state)
            steps.append(state)
        if cache is not None:
            cache[0] = state
            cache.advance(length)
        return x + self.out(mx.tanh(mx.stack(steps, axis=1)))


class Both(nn.Module):
    """Attention and then a recurrence, with a list of two caches."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.recurrence = Layer(), Recurrence()

    def __call__(self, x: mx.array, cache: Any) -> mx.array:
        x = self.attention(x, None if cache is None else cache[0])
        return self.recurrence(x, None if cache is None else cache[1])


class TinyModel(nn.Module):
    """Counts its calls and the tokens in each."""

    def __init__(
        self,
        caches: Callable[[], list[Cache]] | None = None,
        layers: Sequence[type[nn.Module]] = (Layer, Layer),
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.layers: list[Any] = [make() for make in layers]
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        self.fed: list[int] = []
        self.caches = caches

    def make_cache(self) -> list[Cache]:
        return self.caches() if self.caches else [KVCache() for _ in self.layers]

    def __call__(
        self,
        tokens: mx.array,
        cache: list[Cache] | None = None,
        input_embeddings: mx.array | None = None,
    ) -> mx.array:
        x = self.embed(tokens) if input_embeddings is None else input_embeddings
        self.fed.append(x.shape[1])
        for i, layer in enumerate(self.layers):
            x = layer(x, None if cache is None else cache[i])
        return self.head(mx.fast.rms_norm(x, None, 1e-5))


class Oracle(nn.Module):
    """Says a fixed answer, whatever the prompt; the cache counts the tokens."""

    def __init__(self, answer: list[int], prompt_tokens: int, vocab: int = VOCAB) -> None:
        super().__init__()
        self.layers = [None]
        self.answer, self.prompt_tokens, self.vocab = answer, prompt_tokens, vocab

    def __call__(self, tokens: mx.array, cache: list[Cache]) -> mx.array:
        length = tokens.shape[1]
        dummy = mx.zeros((1, 1, length, 32))
        cache[0].update_and_fetch(dummy, dummy)
        places = mx.arange(1 - length, 1) + (cache[0].offset - self.prompt_tokens)
        said = mx.array(self.answer)[places % len(self.answer)]
        logits = mx.where(mx.arange(self.vocab) == said[:, None], 5.0, 0.0)
        return logits[None] + dummy[..., :1, :, :1].sum()


class ByteTokenizer:
    bos_token = None
    eos_token_ids = frozenset({EOS})

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int]) -> str:
        return bytes(token for token in ids if token < 256).decode(errors="replace")


@pytest.fixture(scope="session")
def model() -> TinyModel:
    return seeded()


@pytest.fixture(scope="session")
def rotating_model() -> TinyModel:
    """The same weights; every layer keeps eight tokens."""
    return seeded(lambda: [RotatingKVCache(max_size=8, keep=2) for _ in range(2)])


@pytest.fixture(scope="session")
def hybrid_model() -> TinyModel:
    """The first layer is recurrent."""
    return seeded(lambda: [ArraysCache(1), KVCache()], (Recurrence, Layer))


@pytest.fixture(scope="session")
def lists_model() -> TinyModel:
    """Each layer has a list of caches, of attention and of a recurrence."""
    return seeded(
        lambda: [
            CacheList(KVCache(), ArraysCache(1)),
            CacheList(RotatingKVCache(max_size=7), ArraysCache(1)),
        ],
        (Both, Both),
    )


def seeded(
    caches: Callable[[], list[Cache]] | None = None,
    layers: Sequence[type[nn.Module]] = (Layer, Layer),
) -> TinyModel:
    mx.random.seed(7)
    model = TinyModel(caches, layers)
    mx.eval(model.parameters())
    return model


@pytest.fixture(scope="session")
def byte_tokenizer() -> ByteTokenizer:
    """What `tokenizer` is, for tests that hypothesis runs many times."""
    return ByteTokenizer()


@pytest.fixture
def tokenizer() -> ByteTokenizer:
    return ByteTokenizer()


@pytest.fixture(scope="session")
def oracle() -> type[Oracle]:
    return Oracle


@pytest.fixture(scope="session")
def greedy() -> Callable[[Any, list[int], int], list[int]]:
    """Greedy decoding that recomputes everything from the tokens at each step."""

    def reference(model: TinyModel, prompt: list[int], count: int) -> list[int]:
        tokens = list(prompt)
        for _ in range(count):
            best: Any = mx.argmax(model(mx.array([tokens]))[0, -1]).item()
            tokens.append(best)
        return tokens[len(prompt) :]

    return reference
