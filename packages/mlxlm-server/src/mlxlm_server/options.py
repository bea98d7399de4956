"""Fields of a request that say how to draw, and what the engine makes of them."""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Annotated, Any

from mlxlm_generate import Request, StopStringMatcher
from mlxlm_sample import SamplingOptions, make_logits_processors, make_sampler
from pydantic import BaseModel, ConfigDict, Field

from mlxlm_server.errors import ApiError, invalid
from mlxlm_server.settings import ServerSettings

_PENALTIES = (
    "repetition_penalty",
    "repetition_context_size",
    "presence_penalty",
    "presence_context_size",
    "frequency_penalty",
    "frequency_context_size",
)
_MOST_STOPS = 64


class Fields(BaseModel):
    """Part of a request. Unknown fields are kept, for a strict server to refuse them."""

    model_config = ConfigDict(extra="allow")


class Drawing(Fields):
    """OpenAI's settings, and mlxlm's beyond them. What is left out is as the server has it."""

    model: str | None = None
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    min_tokens: Annotated[int, Field(ge=0)] = 0
    ignore_eos: bool = False
    stop: str | list[str] | None = None
    seed: int | None = None
    n: Annotated[int, Field(ge=1, le=128)] = 1
    stream: bool = False
    stream_options: dict[str, Any] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    min_tokens_to_keep: int | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    logit_bias: dict[str, float] | None = None
    repetition_penalty: float | None = None
    repetition_context_size: int | None = None
    presence_penalty: float | None = None
    presence_context_size: int | None = None
    frequency_penalty: float | None = None
    frequency_context_size: int | None = None
    user: str | None = None

    @property
    def include_usage(self) -> bool:
        return bool((self.stream_options or {}).get("include_usage"))

    @property
    def stops(self) -> list[str]:
        given = [self.stop] if isinstance(self.stop, str) else list(self.stop or [])
        if len(given) > _MOST_STOPS or not all(given):
            raise invalid(f"stop: give up to {_MOST_STOPS} texts, none of them empty.", "stop")
        return given

    def limit(self, settings: ServerSettings) -> int:
        return settings.max_tokens if self.max_tokens is None else self.max_tokens

    def sampling(self, settings: ServerSettings) -> SamplingOptions:
        names = [field.name for field in fields(SamplingOptions)]
        given = {name: value for name in names if (value := getattr(self, name, None)) is not None}
        if self.temperature is not None:
            given["temp"] = self.temperature
        return replace(settings.sampling, **given)


def check_fields(body: Fields, strict: bool) -> None:
    """Refuse fields that nobody knows, at any depth, where the server is strict."""
    unknown = sorted(_unknown(body, "")) if strict else []
    if unknown:
        raise invalid(f"Unknown fields: {', '.join(unknown)}.", param=unknown[0])


def _unknown(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for i, each in enumerate(value):
            yield from _unknown(each, f"{path}{i}.")
    elif isinstance(value, Fields):
        yield from (f"{path}{name}" for name in value.model_extra or {})
        for name in type(value).model_fields:
            yield from _unknown(getattr(value, name), f"{path}{name}.")


def check_prompt(ids: list[int], tokenizer: Any, settings: ServerSettings, param: str) -> None:
    """ApiError 400 for a prompt that is empty, too long, or has ids that are none."""
    if not ids:
        raise invalid("The prompt is empty: give at least one token.", param=param)
    most = settings.max_prompt_tokens
    if most is not None and len(ids) > most:
        raise ApiError(
            400,
            f"The prompt has {len(ids)} tokens, and the limit (--max-prompt-tokens) is {most}.",
            code="context_length_exceeded",
            param=param,
        )
    check_ids(ids, tokenizer, param)


def check_ids(ids: list[int], tokenizer: Any, param: str) -> None:
    """ApiError 400 for an id that is none."""
    size = len(tokenizer)
    wrong = next((token for token in ids if not 0 <= token < size), None)
    if wrong is not None:
        raise invalid(f"{wrong} is no token id: the vocabulary has {size}.", param=param)


def requests(
    body: Drawing,
    ids: list[int],
    tokenizer: Any,
    settings: ServerSettings,
    logprobs: Any = None,
    constraint: Any = None,
) -> list[Request]:
    """Return a request for each of the `n` answers; ApiError 400 names what is wrong.

    A seeded request draws the same whatever runs beside it (R28); its second answer has the
    next seed, and so on.
    """
    try:
        options = body.sampling(settings)
        idle = set(options.ignored())
        names = [f.name for f in fields(options) if f.name not in idle]
        kept: dict[str, Any] = {name: getattr(options, name) for name in names}
        if options.uses_xtc and not options.greedy:
            from mlxlm_sample import xtc_special_tokens

            kept["xtc_special_tokens"] = xtc_special_tokens(tokenizer)
        else:
            kept.pop("xtc_special_tokens", None)
        penalties = {
            name: value for name in _PENALTIES if (value := getattr(body, name)) is not None
        }
        processors = make_logits_processors(_bias(body, len(tokenizer)), **penalties)
        stops = body.stops
        return [
            Request(
                [ids],
                body.limit(settings),
                sampler=make_sampler(**kept),
                logits_processors=processors,
                stop_matcher=StopStringMatcher(stops, tokenizer) if stops else None,
                constraint=None if constraint is None else constraint(),
                key=None if body.seed is None else (body.seed + i) % 2**63,
                logprobs=logprobs,
                min_tokens=body.min_tokens,
                ignore_eos=body.ignore_eos,
                keep_cache=settings.prompt_cache_size > 0,
            )
            for i in range(body.n)
        ]
    except ValueError as error:
        raise invalid(" ".join(str(error).split()), getattr(error, "argument", None)) from error


def _bias(body: Drawing, size: int) -> dict[int, float] | None:
    if body.logit_bias is None:
        return None
    try:
        bias = {int(token): value for token, value in body.logit_bias.items()}
    except ValueError as error:
        raise invalid("logit_bias: its keys are token ids, as text.", "logit_bias") from error
    if any(not 0 <= token < size for token in bias):
        raise invalid(f"logit_bias: the vocabulary has {size} tokens.", "logit_bias")
    return bias
