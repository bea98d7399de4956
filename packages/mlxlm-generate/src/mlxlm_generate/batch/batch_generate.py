"""Answers to a list of prompts, all at once."""

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TypedDict, Unpack, cast

import mlx.core as mx
from mlxlm_cache import Cache

from mlxlm_generate.batch.generator import BatchGenerator
from mlxlm_generate.batch.request import token_list
from mlxlm_generate.batch.response import BatchResponse, BatchStats, TokenResponse
from mlxlm_generate.defaults import GENERATION
from mlxlm_generate.protocols import BareTokenizer, LogitsProcessor, Model, Sampler
from mlxlm_generate.speculate.drafter import Drafter
from mlxlm_generate.tokenizer import encode, eos_token_ids, streaming_detokenizer

logger = logging.getLogger(__name__)


class BatchOptions(TypedDict, total=False):
    """Options of `BatchGenerator` that `batch_generate` hands on."""

    stop_tokens: Iterable[Sequence[int]] | None
    sampler: Sampler | None
    logits_processors: Sequence[LogitsProcessor] | None
    completion_batch_size: int
    prefill_batch_size: int
    prefill_step_size: int
    interleaved_step_size: int
    max_kv_size: int | None
    kv_bits: int | None
    kv_group_size: int
    quantized_kv_start: int
    memory_budget: int | None
    drafter: Callable[[], Drafter] | None
    draft_model: Model | None
    num_draft_tokens: int


def batch_generate(
    model: Model,
    tokenizer: BareTokenizer,
    prompts: Sequence[str | mx.array | Sequence[int]],
    prompt_caches: Sequence[Sequence[Cache] | None] | None = None,
    max_tokens: int | Sequence[int] = GENERATION.batch_max_tokens,
    verbose: bool = False,
    return_prompt_caches: bool = False,
    return_token_ids: bool = False,
    return_logprobs: bool = False,
    *,
    seeds: Sequence[int | None] | None = None,
    **options: Unpack[BatchOptions],
) -> BatchResponse:
    """Return the answers to prompts, strings or token ids, in their order.

    None of what is passed is changed: to go on from `prompt_caches`, pass the `caches` of
    the response. They hold the prompt and every token generated, the one that ended the
    answer included. A request with one of `seeds` gives the same answer in any batch.
    An answer that fails is in `errors`, with a warning, and leaves the others be.
    `verbose` reports on stderr.
    """
    ids = [encode(tokenizer, p) if isinstance(p, str) else token_list(p) for p in prompts]
    given = dict(options)
    if given.get("stop_tokens") is None:
        given["stop_tokens"] = [[token] for token in sorted(eos_token_ids(tokenizer))]
    answers: dict[int, list[int]] = {}
    logprobs: dict[int, list[float]] = {}
    last: dict[int, TokenResponse] = {}
    with BatchGenerator(
        model,
        return_prompt_caches=return_prompt_caches,
        **cast(BatchOptions, given),
    ) as generator:
        uids = generator.insert(
            ids,
            max_tokens,
            prompt_caches,
            keys=seeds,
            logprobs="sampled" if return_logprobs else None,
        )
        answers = {uid: [] for uid in uids}
        logprobs = {uid: [] for uid in uids}
        with generator.stats() as stats:
            while responses := generator.next_generated():
                for response in responses:
                    if response.token is not None and response.finish_reason != "stop":
                        answers[response.uid].append(response.token)
                        if response.logprob is not None:
                            logprobs[response.uid].append(response.logprob)
                    if response.finish_reason is not None:
                        last[response.uid] = response
                        _report(response, len(last), len(uids), verbose)
    if verbose:
        sys.stderr.write(_statistics(stats) + "\n")
    return BatchResponse(
        texts=[_text(tokenizer, answers[uid]) for uid in uids],
        stats=stats,
        caches=[last[uid].prompt_cache or [] for uid in uids] if return_prompt_caches else None,
        token_ids=[answers[uid] for uid in uids] if return_token_ids else None,
        logprobs=[logprobs[uid] for uid in uids] if return_logprobs else None,
        finish_reasons=[last[uid].finish_reason or "error" for uid in uids],
        errors=[last[uid].error for uid in uids],
    )


def _text(tokenizer: BareTokenizer, tokens: Sequence[int]) -> str:
    detokenizer = streaming_detokenizer(tokenizer)
    for token in tokens:
        detokenizer.add_token(token)
    detokenizer.finalize()
    return detokenizer.text


def _report(response: TokenResponse, done: int, total: int, verbose: bool) -> None:
    if response.error is not None:
        logger.warning("Prompt %d failed: %r", response.uid, response.error)
    if verbose:
        sys.stderr.write(f"Finished {done} of {total}\n")


def _statistics(stats: BatchStats) -> str:
    return (
        f"Prompt: {stats.prompt_tokens} tokens, {stats.prompt_tps:.3f} tokens-per-sec\n"
        f"Generation: {stats.generation_tokens} tokens, "
        f"{stats.generation_tps:.3f} tokens-per-sec\n"
        + (f"Guesses: {stats.accepted} of {stats.drafted} right\n" if stats.drafted else "")
        + f"Peak memory: {stats.peak_memory:.3f} GB"
    )
