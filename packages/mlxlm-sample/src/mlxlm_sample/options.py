"""Every sampling setting in one checked value, before a model or MLX is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from mlxlm_sample import checks
from mlxlm_sample.defaults import SAMPLING


@dataclass(frozen=True)
class SamplingOptions:
    """What `make_sampler` takes; SamplingOptionError at construction if a value is out of range.

    `xtc_special_tokens` are ids that XTC never removes; None means that nobody said.
    """

    temp: float = SAMPLING.temp
    top_p: float = SAMPLING.top_p
    min_p: float = SAMPLING.min_p
    min_tokens_to_keep: int = SAMPLING.min_tokens_to_keep
    top_k: int = SAMPLING.top_k
    xtc_probability: float = SAMPLING.xtc_probability
    xtc_threshold: float = SAMPLING.xtc_threshold
    xtc_special_tokens: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        checks.check_temp(self.temp)
        checks.check_interval("top_p", self.top_p, 1)
        checks.check_interval("min_p", self.min_p, 1)
        checks.check_min_tokens_to_keep(self.min_tokens_to_keep)
        checks.check_top_k(self.top_k)
        checks.check_interval("xtc_probability", self.xtc_probability, 1)
        checks.check_interval("xtc_threshold", self.xtc_threshold, 0.5)
        if self.xtc_special_tokens is not None:
            checks.check_token_ids("xtc_special_tokens", self.xtc_special_tokens)

    @property
    def greedy(self) -> bool:
        return self.temp == 0

    @property
    def uses_top_p(self) -> bool:
        """Both 0 and 1 mean off."""
        return 0 < self.top_p < 1

    @property
    def uses_xtc(self) -> bool:
        return self.xtc_probability > 0

    def given(self) -> tuple[str, ...]:
        """Names of the settings that differ from the defaults, `temp` and the ids aside.

        `top_p` 1 is as much off as the default 0, so it does not count.
        """
        names = (field.name for field in fields(self))
        return tuple(
            name
            for name in names
            if name not in ("temp", "xtc_special_tokens")
            and getattr(self, name) != getattr(SAMPLING, name)
            and (name != "top_p" or self.uses_top_p)
        )

    def ignored(self) -> tuple[str, ...]:
        """Names of the settings that were given and change nothing in this combination."""
        given = self.given()
        if self.greedy:
            return given
        idle = set()
        if not self.uses_xtc:
            idle.add("xtc_threshold")
        if self.min_p == 0:
            idle.add("min_tokens_to_keep")
        return tuple(name for name in given if name in idle)


@dataclass(frozen=True)
class ProcessorOptions:
    """What `make_logits_processors` takes; SamplingOptionError if a value is out of range.

    A penalty that is None is off, and so is 0; a repetition penalty of 1 changes nothing.
    """

    logit_bias: Mapping[int, float] | None = None
    repetition_penalty: float | None = SAMPLING.repetition_penalty
    repetition_context_size: int | None = SAMPLING.repetition_context_size
    presence_penalty: float | None = SAMPLING.presence_penalty
    presence_context_size: int | None = SAMPLING.presence_context_size
    frequency_penalty: float | None = SAMPLING.frequency_penalty
    frequency_context_size: int | None = SAMPLING.frequency_context_size

    def __post_init__(self) -> None:
        if self.logit_bias is not None:
            checks.check_logit_bias(self.logit_bias)
        if self.repetition_penalty not in (None, 0):
            checks.check_repetition_penalty(self.repetition_penalty)
        if self.presence_penalty is not None:
            checks.check_penalty("presence_penalty", self.presence_penalty)
        if self.frequency_penalty is not None:
            checks.check_penalty("frequency_penalty", self.frequency_penalty)
        checks.check_context_size("repetition_context_size", self.repetition_context_size)
        checks.check_context_size("presence_context_size", self.presence_context_size)
        checks.check_context_size("frequency_context_size", self.frequency_context_size)
