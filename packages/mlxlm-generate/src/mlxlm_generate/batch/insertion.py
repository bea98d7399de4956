"""Requests from lists that have an entry for each prompt."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlxlm_cache import Cache
from mlxlm_sample import KeyStream

from mlxlm_generate.batch.constraint import TokenConstraint
from mlxlm_generate.batch.request import Request, Tokens
from mlxlm_generate.batch.stop import StopMatcher
from mlxlm_generate.errors import InvalidOption
from mlxlm_generate.logprobs import LogprobsRequest
from mlxlm_generate.protocols import LogitsProcessor, Sampler
from mlxlm_generate.speculate.drafter import Drafter


def make_requests(
    segments: Sequence[Sequence[Tokens]],
    *,
    max_tokens: int | Sequence[int],
    caches: Sequence[Sequence[Cache] | None] | None,
    all_tokens: Sequence[Tokens | None] | None,
    samplers: Sequence[Sampler | None] | None,
    logits_processors: Sequence[Sequence[LogitsProcessor] | None] | None,
    stop_matchers: Sequence[StopMatcher | None] | None,
    keys: Sequence[int | mx.array | KeyStream | None] | None,
    constraints: Sequence[TokenConstraint | None] | None,
    drafters: Sequence[Drafter | None] | None,
    logprobs: LogprobsRequest | Sequence[LogprobsRequest],
    min_tokens: int | Sequence[int],
    ignore_eos: bool | Sequence[bool],
) -> list[Request]:
    """Return a request for each prompt; see `BatchGenerator.insert`. Raises InvalidOption."""
    columns: dict[str, Sequence[Any] | None] = {
        "max_tokens": _spread(max_tokens, len(segments)),
        "caches": caches,
        "all_tokens": all_tokens,
        "samplers": samplers,
        "logits_processors": logits_processors,
        "stop_matchers": stop_matchers,
        "keys": keys,
        "constraints": constraints,
        "drafters": drafters,
        "logprobs": _spread(logprobs, len(segments)),
        "min_tokens": _spread(min_tokens, len(segments)),
        "ignore_eos": _spread(ignore_eos, len(segments)),
    }
    for name, values in columns.items():
        if values is not None and len(values) != len(segments):
            raise InvalidOption(f"{name} has {len(values)} entries for {len(segments)} prompts.")
    given = {name: values for name, values in columns.items() if values is not None}
    rows = [{name: values[i] for name, values in given.items()} for i in range(len(segments))]
    return [
        Request(
            parts,
            row["max_tokens"],
            cache=row.get("caches"),
            history=row.get("all_tokens"),
            sampler=row.get("samplers"),
            logits_processors=row.get("logits_processors"),
            stop_matcher=row.get("stop_matchers"),
            constraint=row.get("constraints"),
            drafter=row.get("drafters"),
            key=row.get("keys"),
            logprobs=row["logprobs"],
            min_tokens=row["min_tokens"],
            ignore_eos=row["ignore_eos"],
        )
        for parts, row in zip(segments, rows, strict=True)
    ]


def _spread(value: Any, count: int) -> Sequence[Any]:
    several = isinstance(value, Sequence) and not isinstance(value, str)
    return value if several else [value] * count
