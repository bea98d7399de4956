"""Tokens and their log-probabilities, without a tokenizer."""

from collections.abc import Generator, Sequence

import mlx.core as mx
from mlxlm_cache import Cache

from mlxlm_generate.decode import token_steps
from mlxlm_generate.defaults import GENERATION
from mlxlm_generate.launch import Steps
from mlxlm_generate.logprobs import Observed
from mlxlm_generate.prompt import make_prompt
from mlxlm_generate.protocols import LogitsProcessor, Model, ProgressCallback, Sampler
from mlxlm_generate.speculate.drafter import Drafter
from mlxlm_generate.speculate.length import DraftLength
from mlxlm_generate.speculate.options import Guessing


def generate_step(
    prompt: mx.array | Sequence[int],
    model: Model,
    *,
    max_tokens: int = GENERATION.max_tokens,
    sampler: Sampler | None = None,
    logits_processors: Sequence[LogitsProcessor] | None = None,
    max_kv_size: int | None = None,
    prompt_cache: list[Cache] | None = None,
    prefill_step_size: int = GENERATION.prefill_step_size,
    kv_bits: int | None = None,
    kv_group_size: int = GENERATION.kv_group_size,
    quantized_kv_start: int = GENERATION.quantized_kv_start,
    prompt_progress_callback: ProgressCallback | None = None,
    input_embeddings: mx.array | None = None,
    logprobs: bool = False,
    draft_model: Model | None = None,
    drafter: Drafter | None = None,
    num_draft_tokens: int | DraftLength | None = None,
) -> Generator[tuple[int, mx.array], None, None]:
    """Yield tokens and their log-probabilities (V,), float32, for a prompt (T,).

    The log-probabilities are lazy: they cost nothing until they are used, in the thread
    that generates. Callers that read them all say `logprobs=True`, which computes them
    together with the token.

    Without a sampler the likeliest token is taken. `max_tokens` -1 never ends; 0 only
    fills the cache. `input_embeddings` (T, D) go in place of the prompt's tokens, which
    may then be empty. Wrong options raise at the call (GenerationError, CacheError);
    nothing is computed before the first `next`.

    `draft_model`, or a `drafter`, fresh for each call, guesses up to `num_draft_tokens`
    that the model checks at once: the same tokens, sooner. `NGramDrafter()` needs no second
    model. Ids of a draft model must mean the same: see `check_draft_tokenizer`. With one,
    `prompt_cache` may have its layers after the model's; else it has a cache for this call.

    `prompt_cache` is extended in place. Whether the generator is exhausted or closed
    after any token, it then holds the prompt and every token yielded, whatever the cache
    classes: the next prompt is what comes after these. An exception, Ctrl-C for one,
    leaves the same where the caches can take tokens back.
    """
    steps, _ = token_steps(
        make_prompt(model, prompt, input_embeddings),
        model,
        observe=_all_logprobs,
        observe_lazily=not logprobs,
        max_tokens=max_tokens,
        sampler=sampler,
        logits_processors=logits_processors,
        max_kv_size=max_kv_size,
        prompt_cache=prompt_cache,
        prefill_step_size=prefill_step_size,
        kv_bits=kv_bits,
        kv_group_size=kv_group_size,
        quantized_kv_start=quantized_kv_start,
        prompt_progress_callback=prompt_progress_callback,
        guessing=Guessing(drafter, draft_model, num_draft_tokens),
    )
    return _pairs(steps)


def _all_logprobs(logprobs: mx.array, token: mx.array) -> Observed:
    return (logprobs[0],)


def _pairs(steps: Steps) -> Generator[tuple[int, mx.array], None, None]:
    try:
        for token, (logprobs,), _ in steps:
            yield token, logprobs
    finally:
        steps.close()
