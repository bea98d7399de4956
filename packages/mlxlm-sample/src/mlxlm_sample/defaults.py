"""The one table of sampling defaults: command lines, servers and functions all read it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SamplingDefaults:
    """Values at which every filter and penalty is off and the draw is greedy."""

    temp: float = 0.0
    top_p: float = 0.0
    min_p: float = 0.0
    min_tokens_to_keep: int = 1
    top_k: int = 0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    repetition_penalty: float | None = None
    repetition_context_size: int | None = 20
    presence_penalty: float | None = None
    presence_context_size: int | None = 20
    frequency_penalty: float | None = None
    frequency_context_size: int | None = 20


SAMPLING = SamplingDefaults()
