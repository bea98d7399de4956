"""The loop: fill the cache, then one token at a time with the next one under way."""

from collections.abc import Sequence
from typing import cast

import mlx.core as mx
from mlxlm_cache import Cache, can_checkpoint_prompt_cache

from mlxlm_generate.checks import check_max_tokens, check_prefill_step_size
from mlxlm_generate.chooser import Chooser, Observe
from mlxlm_generate.errors import InvalidPrompt, NotSupported
from mlxlm_generate.forward import Forward
from mlxlm_generate.kv import kv_quantization, working_cache
from mlxlm_generate.launch import CLEAR_EVERY, Launch, Steps
from mlxlm_generate.prompt import Prompt
from mlxlm_generate.protocols import LogitsProcessor, Model, ProgressCallback, Sampler
from mlxlm_generate.speculate.drafter import Speculation
from mlxlm_generate.speculate.model import ModelDrafter
from mlxlm_generate.speculate.options import Guessing, parted
from mlxlm_generate.speculate.steps import speculative_steps


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
    guessing: Guessing,
) -> tuple[Steps, Speculation | None]:
    """Check the options, then return a generator of tokens and what was observed of each.

    See `generate_step`, which is this with log-probabilities. With `observe_lazily`, what
    `observe` returns is left to the caller to evaluate. Counts of guesses are in the
    second part, where there is `guessing`.
    """
    check_max_tokens(max_tokens)
    check_prefill_step_size(prefill_step_size)
    quantization = kv_quantization(kv_bits, kv_group_size, quantized_kv_start)
    target, drafter, draft_cache = prompt_cache, guessing.drafter, None
    if guessing.draft_model is not None:
        if prompt.tokens.size == 0:
            raise InvalidPrompt(
                "A draft_model reads tokens: give them together with input_embeddings, or "
                "leave draft_model out."
            )
        target, draft_cache = parted(model, guessing.draft_model, prompt_cache)
        drafter = ModelDrafter(
            guessing.draft_model,
            draft_cache,
            max_kv_size=max_kv_size,
            prefill_step_size=prefill_step_size,
            kv_bits=kv_bits,
            kv_group_size=kv_group_size,
            quantized_kv_start=quantized_kv_start,
        )
    cache = working_cache(model, target, max_kv_size, quantization)
    speculation = guessing.by(drafter)
    if speculation is not None and not can_checkpoint_prompt_cache(cache):
        raise NotSupported(
            "Speculation takes refused guesses back out of the cache, and a layer of this one "
            f"({', '.join(sorted({type(layer).__name__ for layer in cache}))}) cannot: leave "
            "drafter and draft_model out."
        )
    launch = Launch(
        Forward(model, cache, quantization),
        Chooser(sampler, logits_processors or (), observe, prompt.tokens),
        observe_lazily=observe_lazily,
    )
    if speculation is None:
        steps = _steps(
            prompt,
            launch,
            max_tokens=max_tokens,
            cache_is_kept=prompt_cache is not None,
            prefill_step_size=prefill_step_size,
            progress=prompt_progress_callback,
        )
        return steps, None
    steps = speculative_steps(
        prompt,
        launch,
        speculation,
        max_tokens=max_tokens,
        cache_is_kept=prompt_cache is not None,
        prefill_step_size=prefill_step_size,
        progress=prompt_progress_callback,
    )
    if prompt_cache is not None and draft_cache is not None:
        steps = _rejoined(steps, prompt_cache, cache, draft_cache)
    return steps, speculation


def _rejoined(steps: Steps, whole: list[Cache], *parts: list[Cache]) -> Steps:
    """Have layers that are quantized on the way in the caller's list, too."""
    try:
        yield from steps
    finally:
        whole[:] = [layer for part in parts for layer in part]


def _steps(
    prompt: Prompt,
    launch: Launch,
    *,
    max_tokens: int,
    cache_is_kept: bool,
    prefill_step_size: int,
    progress: ProgressCallback | None,
) -> Steps:
    total, yielded = len(prompt), 0
    try:
        following = launch.first(prompt, max_tokens, prefill_step_size, progress)
        while following is not None and yielded != max_tokens:
            current = following
            # What is fed here is in the cache by the time the token is yielded. Nothing
            # is computed past the end, except for a cache that lives on.
            if yielded + 1 != max_tokens:
                following = launch(current.token)
            elif cache_is_kept:
                launch.absorb(current.token)
            token = cast(int, current.token.item())
            if yielded == 0 and progress is not None:
                progress(total, total)
            yielded += 1
            if yielded % CLEAR_EVERY == 0:
                mx.clear_cache()
            yield token, current.observed, False
    finally:
        launch.forward.keep_first(total + yielded)
