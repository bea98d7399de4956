"""A model together with its cache."""

import logging
from typing import Any

import mlx.core as mx
from mlxlm_cache import Cache, quantize_prompt_cache, trim_prompt_cache
from mlxlm_cache.device import backend

from mlxlm_generate.kv import KVQuantization
from mlxlm_generate.protocols import HeadedModel, Model

logger = logging.getLogger(__name__)


class Forward:
    """Feeds tokens to a model and counts them.

    The cache list is changed in place, its elements too once it is quantized.
    """

    def __init__(
        self, model: Model, cache: list[Cache], quantization: KVQuantization | None = None
    ) -> None:
        self.model = model
        self.cache = cache
        self.fed = 0
        self.vocabulary = 0  # how many logits there are, once some are
        self._starts = [layer.offset for layer in cache]
        self._quantization = quantization
        # On CUDA starting a step costs more than a chunk's last layer, which is left out
        # where only the cache is wanted.
        self._headed = _headed(model) if backend() == "cuda" else None

    @property
    def one_pass(self) -> bool:
        """Whether the last token's logits, and no others, come with those before it."""
        return self._headed is not None

    def __call__(self, tokens: mx.array, embeddings: mx.array | None = None) -> mx.array:
        """Return lazy logits (1, V) after the last of tokens (L,).

        Or of embeddings (L, D) in their place.
        """
        return self._logits(tokens, embeddings, last=True)[:, -1]

    def each(self, tokens: mx.array) -> mx.array:
        """Return lazy logits (L, V) after each of tokens (L,)."""
        return self._logits(tokens, None, last=False)[0]

    @property
    def before_switch(self) -> int | None:
        """How many tokens can be fed with no layer quantized after them; None for any number."""
        how = self._quantization
        return None if how is None else max(0, how.start - 1 - max(self._starts) - self.fed)

    @property
    def whole(self) -> bool:
        """Whether every layer has what was fed: an interrupted call leaves some ahead."""
        pairs = zip(self._starts, self.cache, strict=True)
        return all(layer.empty() or layer.offset - start == self.fed for start, layer in pairs)

    def take_back(self, tokens: int) -> None:
        """Take the latest `tokens` back from every layer, and from the count."""
        trim_prompt_cache(self.cache, tokens)
        self.fed -= tokens

    def _logits(self, tokens: mx.array, embeddings: mx.array | None, *, last: bool) -> mx.array:
        given: dict[str, Any] = {}
        if embeddings is not None:
            given["input_embeddings"] = embeddings[None]
        if self._headed is not None:
            hidden = self._headed.model(tokens[None], cache=self.cache, **given)
            logits = self._headed.logits(hidden[:, -1:] if last else hidden)
        else:
            logits = self.model(tokens[None], cache=self.cache, **given)
        self.vocabulary = logits.shape[-1]
        if self.fed == 0:
            self._check_quantization()
        self.fed += tokens.size if embeddings is None else embeddings.shape[0]
        how = self._quantization
        if how is not None and max(self._starts) + self.fed >= how.start:
            self._quantize(how)
        return logits

    def states(self) -> list[Any]:
        """The arrays that the cache keeps, to evaluate."""
        return [layer.state for layer in self.cache]

    def keep_first(self, tokens: int) -> None:
        """Take back what went into the cache beyond the first `tokens` fed.

        A call that was interrupted leaves some layers ahead of others, and isn't counted.
        """
        tokens = min(tokens, self.fed)
        for start, layer in zip(self._starts, self.cache, strict=True):
            excess = layer.offset - start - tokens
            if excess <= 0:
                continue
            if not layer.can_trim(excess):
                logger.warning(
                    "Generation was interrupted and a %s cannot take back its last tokens: "
                    "make a new prompt cache.",
                    type(layer).__name__,
                )
                return
            layer.trim(excess)
        self.fed = tokens

    def _check_quantization(self) -> None:
        """Raise at the first tokens, not at the switch, where a head dimension forbids it."""
        how = self._quantization
        for layer in self.cache if how is not None else ():
            to_quantized = getattr(layer, "to_quantized", None)
            if how is not None and to_quantized is not None:
                to_quantized(group_size=how.group_size, bits=how.bits)  # lazy, and let go

    def _quantize(self, how: KVQuantization) -> None:
        quantize_prompt_cache(self.cache, bits=how.bits, group_size=how.group_size, start=how.start)
        self._quantization = None


def _headed(model: Any) -> HeadedModel | None:
    """Return `model` if it is one; `isinstance` does not see what an `nn.Module` holds."""
    parts = (getattr(model, name, None) for name in ("model", "logits"))
    return model if all(map(callable, parts)) else None
