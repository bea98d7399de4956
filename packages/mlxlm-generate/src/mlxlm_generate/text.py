"""Text from a prompt, all at once."""

import sys
from collections.abc import Sequence
from contextlib import closing

import mlx.core as mx
from mlxlm_cache import Cache

from mlxlm_generate.defaults import GENERATION
from mlxlm_generate.protocols import (
    BareTokenizer,
    LogitsProcessor,
    Model,
    ProgressCallback,
    Sampler,
)
from mlxlm_generate.response import GenerationResponse
from mlxlm_generate.speculate.drafter import Drafter
from mlxlm_generate.speculate.length import DraftLength
from mlxlm_generate.stream import stream_generate


def generate(
    model: Model,
    tokenizer: BareTokenizer,
    prompt: str | mx.array | Sequence[int],
    verbose: bool = False,
    *,
    max_tokens: int = GENERATION.max_tokens,
    draft_model: Model | None = None,
    num_draft_tokens: int | DraftLength | None = None,
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
    drafter: Drafter | None = None,
) -> str:
    """Return the whole answer, "" where the model gives none; see `stream_generate`.

    `verbose` writes the text to stdout as it comes, then counts and speeds to stderr.
    """
    pieces: list[str] = []
    last: GenerationResponse | None = None
    responses = stream_generate(
        model,
        tokenizer,
        prompt,
        max_tokens,
        draft_model,
        sampler=sampler,
        logits_processors=logits_processors,
        max_kv_size=max_kv_size,
        prompt_cache=prompt_cache,
        prefill_step_size=prefill_step_size,
        kv_bits=kv_bits,
        kv_group_size=kv_group_size,
        quantized_kv_start=quantized_kv_start,
        prompt_progress_callback=prompt_progress_callback,
        drafter=drafter,
        num_draft_tokens=num_draft_tokens,
        input_embeddings=input_embeddings,
    )
    with closing(responses):
        for last in responses:
            pieces.append(last.text)
            if verbose:
                sys.stdout.write(last.text)
                sys.stdout.flush()
    if verbose and last is not None:
        sys.stdout.write("\n")
        sys.stdout.flush()
        sys.stderr.write(statistics(last) + "\n")
    return "".join(pieces)


def statistics(response: GenerationResponse) -> str:
    """Describe a last response in three lines: counts, speeds, memory.

    With speculation, in four: how many tokens were guessed, and how many accepted.
    """
    lines = [
        f"Prompt: {response.prompt_tokens} tokens, {response.prompt_tps:.3f} tokens-per-sec",
        f"Generation: {response.generation_tokens} tokens, "
        f"{response.generation_tps:.3f} tokens-per-sec",
        f"Peak memory: {response.peak_memory:.3f} GB",
    ]
    if response.drafted:
        share = response.accepted / response.drafted
        lines.insert(
            2, f"Guesses: {response.drafted} tokens, {response.accepted} accepted ({share:.1%})"
        )
    return "\n".join(lines)
