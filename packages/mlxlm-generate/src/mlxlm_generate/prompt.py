"""The prompt as the model takes it."""

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from mlxlm_generate.errors import InvalidPrompt, NotSupported
from mlxlm_generate.protocols import Model

_EMPTY = "The prompt is empty: give at least one token, for instance the beginning-of-text token."


@dataclass(frozen=True)
class Prompt:
    """Token ids (T,), uint32; with embeddings (T, D) the ids may be missing."""

    tokens: mx.array
    embeddings: mx.array | None = None

    def __len__(self) -> int:
        return self.tokens.size if self.embeddings is None else self.embeddings.shape[0]

    def __getitem__(self, part: slice) -> "Prompt":
        embeddings = None if self.embeddings is None else self.embeddings[part]
        return Prompt(self.tokens[part], embeddings)


def make_prompt(
    model: Model, tokens: mx.array | Sequence[int], embeddings: mx.array | None = None
) -> Prompt:
    """Check that there is something to feed and that `model` can take it."""
    prompt = Prompt(token_array(tokens), embeddings)
    if embeddings is not None:
        if not takes_embeddings(model):
            raise NotSupported(
                f"{type(model).__name__} takes no input_embeddings: give it token ids."
            )
        if embeddings.ndim != 2 or prompt.tokens.size not in (0, embeddings.shape[0]):
            raise InvalidPrompt(
                f"input_embeddings has shape {embeddings.shape} and the prompt "
                f"{prompt.tokens.size} tokens: give one row for each token, or no tokens."
            )
    if len(prompt) == 0:
        raise InvalidPrompt(_EMPTY)
    return prompt


def token_array(tokens: mx.array | Sequence[int]) -> mx.array:
    """Return ids as a uint32 array (T,). Raises InvalidPrompt."""
    if not isinstance(tokens, mx.array):
        if not isinstance(tokens, Iterable) or not all(_is_id(token) for token in tokens):
            raise InvalidPrompt("The prompt must be one sequence of token ids, each 0 or more.")
        return mx.array([int(token) for token in tokens], dtype=mx.uint32)
    if tokens.ndim != 1 or not mx.issubdtype(tokens.dtype, mx.integer):
        raise InvalidPrompt(
            f"The prompt must be one sequence of token ids, an integer array of one dimension, "
            f"not {tokens.dtype} of shape {tokens.shape}."
        )
    return tokens.astype(mx.uint32)


def takes_embeddings(model: Any) -> bool:
    """Tell whether the model's call has an `input_embeddings` parameter."""
    return "input_embeddings" in inspect.signature(type(model).__call__).parameters


def _is_id(token: Any) -> bool:
    try:
        return bool(int(token) == token and token >= 0)
    except (TypeError, ValueError):
        return False
