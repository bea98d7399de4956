"""The loop: fill the cache, then one token at a time with the next one under way."""

from collections.abc import Callable, Generator, Sequence
from typing import cast

import mlx.core as mx
from mlxlm_cache import Cache

from mlxlm_generate.chooser import Choice, Chooser, Observe
from mlxlm_generate.errors import InvalidOption
from mlxlm_generate.forward import Forward
from mlxlm_generate.kv import kv_quantization, working_cache
from mlxlm_generate.logprobs import Observed
from mlxlm_generate.prefill import prefill
from mlxlm_generate.prompt import Prompt
from mlxlm_generate.protocols import LogitsProcessor, Model, ProgressCallback, Sampler
from mlxlm_generate.streams import generation_stream

_CLEAR_EVERY = 256  # tokens: gives back buffers of sizes that don't come again

_async_eval: Callable[..., None] = mx.async_eval

Steps = Generator[tuple[int, Observed], None, None]


def token_steps(
    prompt: Prompt,
    model: Model,
    *,
    observe: Observe | None,
    observe_lazily: bool = False,
    max_tokens: int,
    sampler: Sampler | None,
    logits_processors: Sequence[LogitsProcessor] | None,
    max_kv_size: int | None,
    prompt_cache: list[Cache] | None,
    prefill_step_size: int,
    kv_bits: int | None,
    kv_group_size: int,
    quantized_kv_start: int,
    prompt_progress_callback: ProgressCallback | None,
) -> Steps:
    """Check the options, then return a generator of tokens and what was observed of each.

    See `generate_step`, which is this with log-probabilities. With `observe_lazily`, what
    `observe` returns is left to the caller to evaluate.
    """
    if max_tokens < -1:
        raise InvalidOption(f"max_tokens={max_tokens}: give 0 or more, or -1 for no end.")
    if prefill_step_size < 1:
        raise InvalidOption(f"prefill_step_size={prefill_step_size}: give 1 or more.")
    quantization = kv_quantization(kv_bits, kv_group_size, quantized_kv_start)
    cache = working_cache(model, prompt_cache, max_kv_size, quantization)
    return _steps(
        prompt,
        Forward(model, cache, quantization),
        Chooser(sampler, logits_processors or (), observe, prompt.tokens),
        observe_lazily=observe_lazily,
        max_tokens=max_tokens,
        cache_is_kept=prompt_cache is not None,
        prefill_step_size=prefill_step_size,
        progress=prompt_progress_callback,
    )


def _steps(
    prompt: Prompt,
    forward: Forward,
    choose: Chooser,
    *,
    observe_lazily: bool,
    max_tokens: int,
    cache_is_kept: bool,
    prefill_step_size: int,
    progress: ProgressCallback | None,
) -> Steps:
    # The stream is entered around each launch and never across a yield: between them the
    # thread is the consumer's.
    stream = generation_stream()

    def launch(tokens: mx.array, embeddings: mx.array | None = None) -> Choice:
        with mx.stream(stream):
            choice = choose(forward(tokens, embeddings))
        observed = () if observe_lazily else choice.observed
        _async_eval(choice.token, *observed, *choose.pending())
        return choice

    def absorb(tokens: mx.array, embeddings: mx.array | None = None) -> None:
        """Feed tokens for the cache alone: no logits are computed."""
        with mx.stream(stream):
            forward(tokens, embeddings)
        _async_eval(forward.states())

    total, yielded = len(prompt), 0
    try:
        last = prefill(
            forward, prompt, step_size=prefill_step_size, progress=progress, stream=stream
        )
        if max_tokens == 0:
            absorb(last.tokens, last.embeddings)
            mx.eval(forward.states())
            if progress is not None:
                progress(total, total)
            return
        following = launch(last.tokens, last.embeddings)
        while yielded != max_tokens:
            current = following
            # What is fed here is in the cache by the time the token is yielded. Nothing
            # is computed past the end, except for a cache that lives on.
            if yielded + 1 != max_tokens:
                following = launch(current.token)
            elif cache_is_kept:
                absorb(current.token)
            token = cast(int, current.token.item())
            if yielded == 0 and progress is not None:
                progress(total, total)
            yielded += 1
            if yielded % _CLEAR_EVERY == 0:
                mx.clear_cache()
            yield token, current.observed
    finally:
        forward.keep_first(total + yielded)
