"""Text from a prompt, as it comes."""

from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from time import perf_counter

import mlx.core as mx
from mlxlm_cache import Cache

from mlxlm_generate.decode import token_steps
from mlxlm_generate.defaults import GENERATION
from mlxlm_generate.launch import Steps
from mlxlm_generate.logprobs import LogprobsRequest, Observer
from mlxlm_generate.prompt import make_prompt
from mlxlm_generate.protocols import (
    BareTokenizer,
    Detokenizer,
    LogitsProcessor,
    Model,
    ProgressCallback,
    Sampler,
)
from mlxlm_generate.response import FinishReason, GenerationResponse
from mlxlm_generate.speculate.drafter import Drafter, Speculation
from mlxlm_generate.speculate.length import DraftLength
from mlxlm_generate.speculate.options import Guessing
from mlxlm_generate.streams import generation_stream
from mlxlm_generate.tokenizer import encode, eos_token_ids, streaming_detokenizer
from mlxlm_generate.wired import wired_limit


def stream_generate(
    model: Model,
    tokenizer: BareTokenizer,
    prompt: str | mx.array | Sequence[int],
    max_tokens: int = GENERATION.max_tokens,
    draft_model: Model | None = None,
    *,
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
    logprobs: LogprobsRequest = None,
    drafter: Drafter | None = None,
) -> Generator[GenerationResponse, None, None]:
    """Yield a response for each token; the last one says why it ended.

    A string is encoded with special tokens, unless it begins with the BOS text. The
    answer ends at a token of `tokenizer.eos_token_ids`, which is not given out, or after
    `max_tokens` (-1: never). `logprobs` asks for log-probabilities in the responses:
    "sampled", how many of the likeliest, or "full".

    `draft_model`, or a `drafter`, fresh for each call, guesses up to `num_draft_tokens`
    that the model checks at once: the same tokens, sooner. `NGramDrafter()` needs no second
    model. `prompt_cache` may have the draft model's layers after the model's.

    `prompt_cache` then holds the prompt and all tokens generated, the stop token
    included, so that a conversation goes on with what follows it; see `generate_step`
    for this and for the other options.
    """
    ids = encode(tokenizer, prompt) if isinstance(prompt, str) else prompt
    checked = make_prompt(model, ids, input_embeddings)
    observer = Observer(logprobs)
    steps, speculation = token_steps(
        checked,
        model,
        observe=None if logprobs is None else observer.observe,
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
    return _responses(
        model,
        steps,
        streaming_detokenizer(tokenizer),
        observer,
        speculation,
        stops=eos_token_ids(tokenizer),
        max_tokens=max_tokens,
        prompt_tokens=len(checked),
    )


def _responses(
    model: Model,
    steps: Steps,
    detokenizer: Detokenizer,
    observer: Observer,
    speculation: Speculation | None,
    *,
    stops: Collection[int],
    max_tokens: int,
    prompt_tokens: int,
) -> Generator[GenerationResponse, None, None]:
    count = 0
    from_draft = False
    reason: FinishReason = "length"
    token = stop_token = None
    record = observer.read(())
    started = perf_counter()
    first = 0.0

    def response(finish_reason: FinishReason | None = None) -> GenerationResponse:
        return GenerationResponse(
            text=detokenizer.last_segment,
            token=token,
            from_draft=from_draft,
            prompt_tokens=prompt_tokens,
            prompt_tps=prompt_tokens / (first - started),
            generation_tokens=count,
            generation_tps=(count - 1) / (perf_counter() - first) if count > 1 else 0.0,
            peak_memory=mx.get_peak_memory() / 1e9,
            finish_reason=finish_reason,
            stop_token=stop_token,
            logprob=record.logprob,
            top_logprobs=record.top,
            logprobs=record.full,
            drafted=0 if speculation is None else speculation.drafted,
            accepted=0 if speculation is None else speculation.accepted,
        )

    with wired_limit(model, [generation_stream()]), closing(steps):
        for token, observed, guessed in steps:
            from_draft = guessed
            count += 1
            if count == 1:
                first = perf_counter()
            if token in stops:
                token, stop_token, reason = None, token, "stop"
                record = observer.read(())
                break
            record = observer.read(observed)
            detokenizer.add_token(token)
            if count == max_tokens:
                break
            yield response()
        if count == 0:
            first = perf_counter()
        detokenizer.finalize()
        yield response(reason)
