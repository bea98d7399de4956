"""What a model, a tokenizer and the callables around them have to look like."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, runtime_checkable

import mlx.core as mx

Sampler = Callable[[mx.array], mx.array]
"""Log-probabilities (1, V), float32, to token ids (1,)."""

LogitsProcessor = Callable[[mx.array, mx.array], mx.array]
"""Token history (T,), at first the whole prompt, and logits (1, V), to logits (1, V)."""

ProgressCallback = Callable[[int, int], None]
"""Prompt tokens processed so far, and in all."""


class Model(Protocol):
    """Token ids (B, L), uint32, to logits (B, L, V).

    For type checkers alone: `isinstance` does not see what an `nn.Module` holds.

    Reads and extends `cache`, a list with one entry for each layer. It may have
    `make_cache()`; it may take `input_embeddings`, (B, L, D), in place of looking the
    tokens up.
    """

    @property
    def layers(self) -> Any: ...

    def __call__(self, tokens: mx.array, /, *, cache: Any = None) -> mx.array: ...


class HeadedModel(Model, Protocol):
    """A model whose head can be applied to some of the hidden states alone.

    Its call is `logits(model(tokens, cache=cache))`, and `model` takes what the call takes.
    """

    @property
    def model(self) -> Callable[..., mx.array]: ...

    def logits(self, hidden: mx.array, /) -> mx.array:
        """Hidden states (B, L, D) to logits (B, L, V)."""
        ...


class Decoder(Protocol):
    """Token ids to text."""

    def decode(self, ids: Any, /) -> str: ...


@runtime_checkable
class BareTokenizer(Decoder, Protocol):
    """The least there has to be: a tokenizer of `tokenizers` or `transformers` fits.

    `encode` adds the special tokens of a prompt; it returns ids, or an object with `ids`.
    """

    def encode(self, text: str, /) -> Any: ...


@runtime_checkable
class Tokenizer(BareTokenizer, Protocol):
    """A tokenizer that says which tokens end a text.

    Where there is no `eos_token_ids`, a single `eos_token_id` counts. It may have
    `detokenizer`, a fresh `Detokenizer` at each access, and `bos_token`.
    """

    @property
    def eos_token_ids(self) -> Collection[int]: ...


@runtime_checkable
class Detokenizer(Protocol):
    """Text from tokens, piece by piece. The pieces together equal `decode(all tokens)`."""

    @property
    def tokens(self) -> Sequence[int]: ...

    @property
    def text(self) -> str: ...

    @property
    def last_segment(self) -> str:
        """The text that came since this was last read."""
        ...

    def reset(self) -> None: ...

    def add_token(self, token: int, /) -> None: ...

    def finalize(self) -> None:
        """Give out what was held back; no token follows."""
        ...
