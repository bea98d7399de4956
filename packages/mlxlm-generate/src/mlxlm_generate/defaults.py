"""The one table of generation defaults (R56): library, command line, chat and server."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GenerationDefaults:
    """Sizes and counts are in tokens. `cli_` and `chat_` values differ on purpose."""

    max_tokens: int = 256
    prefill_step_size: int = 2048
    kv_group_size: int = 64
    quantized_kv_start: int = 5000
    num_draft_tokens: int = 3

    batch_max_tokens: int = 128
    completion_batch_size: int = 32
    """Requests that run at once."""
    prefill_batch_size: int = 8
    """Of these, how many may still have their prompt processed."""
    interleaved_step_size: int = 512
    """Tokens of prompts between two steps of running requests."""

    cli_prompt: str = "hello"
    cli_max_tokens: int = 100
    cli_seed: int | None = None
    chat_max_tokens: int = 256
    chat_seed: int | None = 0


GENERATION = GenerationDefaults()
