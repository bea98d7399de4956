"""How a server is set up, in one checked value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mlxlm_generate.defaults import GENERATION
from mlxlm_sample import SamplingOptions

MEBIBYTE = 2**20


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """ValueError at construction for what can't be. Sizes in bytes, times in seconds.

    `models` are the names that requests may ask for, as `mlxlm_models.load` takes them; the
    first serves requests that name none. Without any, requests name Hugging Face repositories,
    which are loaded when first asked for; a path never comes from a request. `sources` says
    where a model is found that is not found under its name. `adapters` are further names, each
    the first model with the adapter of a directory. At most `max_models` are loaded at once:
    the one unused for longest makes room.

    `draft_model` guesses up to `num_draft_tokens` ahead for every model, whose vocabulary it
    has to have; `ngram_draft` guesses what followed the same words before.

    `memory_limit` bounds keys and values, of requests and of prefixes kept for later, in
    all; of it, `prompt_cache_bytes` are for prefixes, by default a third. None is most of
    what is free. `max_queue` requests may be under way or wait; more are told to come again.
    `stall_timeout`: when requests are under way and nothing comes of any for so long, the
    engine is given up and started anew. `keepalive` 0 turns comments in silent streams off.
    Browsers' pages of `allowed_origins` may ask, "*" being every one; others are refused,
    but for those that this server has served. Requests have to name one of `allowed_hosts` in
    their header Host, without a port; none is any. `strict` refuses unknown fields.
    """

    models: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    adapters: Mapping[str, str] = field(default_factory=dict)
    adapter_path: str | None = None
    max_models: int = 1
    trust_remote_code: bool = False
    cpu_weights: Literal["auto", "packed", "float32"] = "auto"
    chat_template: str | None = None
    use_default_chat_template: bool = False
    chat_template_args: Mapping[str, Any] = field(default_factory=dict)
    sampling: SamplingOptions = SamplingOptions()
    max_tokens: int = 512
    decode_concurrency: int = GENERATION.completion_batch_size
    prompt_concurrency: int = GENERATION.prefill_batch_size
    prefill_step_size: int = GENERATION.prefill_step_size
    draft_model: str | None = None
    ngram_draft: bool = False
    num_draft_tokens: int = GENERATION.num_draft_tokens
    max_kv_size: int | None = None
    kv_bits: int | None = None
    kv_group_size: int = GENERATION.kv_group_size
    quantized_kv_start: int = GENERATION.quantized_kv_start
    memory_limit: int | None = None
    prompt_cache_size: int = 10
    prompt_cache_bytes: int | None = None
    disk_cache: Path | None = None
    disk_cache_bytes: int = 16 * 2**30
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    max_body_bytes: int = 32 * MEBIBYTE
    max_queue: int = 256
    max_prompt_tokens: int | None = None
    request_timeout: float | None = None
    stall_timeout: float = 300.0
    keepalive: float = 15.0
    strict: bool = False

    def __post_init__(self) -> None:
        for name in (
            "max_models",
            "max_tokens",
            "decode_concurrency",
            "prompt_concurrency",
            "prefill_step_size",
            "num_draft_tokens",
            "max_body_bytes",
            "max_queue",
            "max_prompt_tokens",
            "memory_limit",
            "request_timeout",
            "stall_timeout",
        ):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name}={value}: give more than 0.")
        for name in ("prompt_cache_size", "prompt_cache_bytes", "keepalive", "disk_cache_bytes"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name}={value}: give 0 or more.")
        if any(not key for key in self.api_keys):
            raise ValueError("api_keys: an empty key would let everyone in.")
        if not self.models:
            self._check_open()
        if twice := sorted({name for name in self.models if self.models.count(name) > 1}):
            raise ValueError(f"models: {', '.join(twice)} is there twice.")
        if strange := sorted(set(self.sources) - set(self.models)):
            raise ValueError(f"sources: {', '.join(strange)} is not among the models.")
        if taken := sorted(set(self.adapters) & set(self.models)):
            raise ValueError(f"adapters: {', '.join(taken)} is the name of a model.")
        if self.chat_template is not None and self.use_default_chat_template:
            raise ValueError("chat_template and use_default_chat_template exclude each other.")
        if self.draft_model is not None and self.ngram_draft:
            raise ValueError("draft_model and ngram_draft both guess ahead: give one of them.")

    def _check_open(self) -> None:
        """Refuse what makes no sense where requests choose the model."""
        for name in ("adapters", "adapter_path", "draft_model"):
            if getattr(self, name):
                raise ValueError(f"{name} needs a model that it belongs to: name it in models.")
        if self.trust_remote_code:
            raise ValueError(
                "trust_remote_code needs models: without, requests choose whose code runs."
            )
