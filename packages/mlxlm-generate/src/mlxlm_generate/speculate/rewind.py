"""Taking refused guesses back out of a cache."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
from mlxlm_cache import Cache, checkpoint_prompt_cache

from mlxlm_generate.forward import Forward
from mlxlm_generate.streams import generation_stream


@contextmanager
def checkpoints(caches: list[Cache], tokens: int) -> Iterator[None]:
    """Inside, let up to `tokens` tokens be taken back; then each cache is set as it was.

    The list may come to hold other caches in their place, quantized ones.
    """
    before = [leaf.checkpointed for leaf in _leaves(caches)]
    try:
        checkpoint_prompt_cache(caches, max([tokens, *before]))
        yield
    finally:
        for leaf, limit in zip(_leaves(caches), before, strict=True):
            if hasattr(leaf, "checkpoint"):
                leaf.checkpoint(limit)


def _leaves(caches: Sequence[Cache]) -> list[Any]:
    return [leaf for cache in caches for leaf in cache.leaves()]


class Pass:
    """The latest tokens fed at once: `keep` takes back what is beyond the first ones.

    Make it before they are fed, with the tokens (L,) where more than one may be taken back.
    """

    def __init__(self, forward: Forward, tokens: mx.array | None = None) -> None:
        self._forward, self._tokens = forward, tokens
        self.start = forward.fed

    def keep(self, count: int) -> None:
        forward, tokens = self._forward, self.start + count
        excess = forward.fed - tokens
        if self._tokens is None or not forward.whole:
            forward.keep_first(tokens)
        elif excess > 0 and all(layer.can_trim(excess) for layer in forward.cache):
            forward.take_back(excess)
        elif excess > 0:
            # A state that cannot be had at this place is made again from that before.
            forward.take_back(forward.fed - self.start)
            if count:
                with mx.stream(generation_stream()):
                    forward(self._tokens[:count])
                mx.eval(forward.states())
