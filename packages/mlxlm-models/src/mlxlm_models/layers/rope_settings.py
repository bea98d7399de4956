"""From a config's RoPE settings to a `RopeSpec`.

Follows the keys and formulas of transformers' `modeling_rope_utils`: a flat mapping with
`rope_type` (older: `type`), `rope_theta` and what the type needs.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlxlm_models.errors import ConfigError
from mlxlm_models.layers.rope import DynamicRopeSpec, LongRopeSpec, RopeSpec


@dataclass(frozen=True)
class RopeSettings:
    """`values` are the settings; `fail(key, problem)` makes the error to raise."""

    values: Mapping[str, Any]
    head_dim: int
    max_positions: int | None
    fail: Callable[[str, str], ConfigError]

    def spec(self, traditional: bool = False) -> RopeSpec:
        kind = self.values.get("rope_type") or self.values.get("type") or "default"
        read = _KINDS.get(kind)
        if read is None:
            raise self.fail("rope_type", f"{kind!r} is none of {', '.join(sorted(_KINDS))}")
        if kind == "proportional":
            return _proportional(self, self.number("rope_theta"), traditional)
        dims = int(self.head_dim * self.values.get("partial_rotary_factor", 1.0))
        if dims <= 0 or dims % 2:
            raise self.fail("partial_rotary_factor", f"it makes {dims} rotated features of a head")
        return read(self, dims, self.number("rope_theta"), traditional)

    def number(self, key: str, default: float | None = None) -> float:
        value = self.values.get(key)
        if value is None:
            value = default
        if value is None:
            raise self.fail(key, "the rope_type needs it")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fail(key, f"{value!r} is not a number")
        return float(value)

    def positive(self, key: str, default: float | None = None) -> float:
        value = self.number(key, default)
        if value <= 0:
            raise self.fail(key, f"{value} is not above zero")
        return value

    def numbers(self, key: str, count: int) -> Sequence[float]:
        value = self.values.get(key)
        if not isinstance(value, list) or len(value) != count:
            raise self.fail(key, f"it has to be a list of {count} numbers")
        return [float(item) for item in value]

    def original_length(self) -> int:
        """Return the length in tokens that the model was first trained for."""
        return int(self.positive("original_max_position_embeddings", self.max_positions))


def _default(settings: RopeSettings, dims: int, theta: float, traditional: bool) -> RopeSpec:
    return RopeSpec(dims, theta, traditional=traditional)


def _proportional(settings: RopeSettings, theta: float, traditional: bool) -> RopeSpec:
    """Gemma 4: the whole head is paired up, of which only the fastest pairs turn."""
    dims = settings.head_dim
    turning = int(settings.number("partial_rotary_factor", 1.0) * dims // 2)
    factor = settings.positive("factor", 1.0)
    freqs = [wave * factor for wave in _series(theta, dims)[:turning]]
    still = [1e30] * (dims // 2 - turning)
    return RopeSpec(dims, freqs=(*freqs, *still), traditional=traditional)


def _linear(settings: RopeSettings, dims: int, theta: float, traditional: bool) -> RopeSpec:
    return RopeSpec(dims, theta, scale=1 / settings.positive("factor"), traditional=traditional)


def _dynamic(settings: RopeSettings, dims: int, theta: float, traditional: bool) -> RopeSpec:
    length = settings.max_positions
    if length is None:
        raise settings.fail("max_position_embeddings", "rope_type 'dynamic' needs it")
    return DynamicRopeSpec(
        dims,
        theta,
        factor=settings.positive("factor"),
        original_length=length,
        traditional=traditional,
    )


def _llama3(settings: RopeSettings, dims: int, theta: float, traditional: bool) -> RopeSpec:
    """Llama 3.1: long waves are slowed by `factor`, short ones kept, those between blended."""
    factor = settings.positive("factor")
    low = settings.positive("low_freq_factor")
    high = settings.positive("high_freq_factor")
    length = settings.original_length()
    freqs = []
    for wave in _series(theta, dims):
        turns = length / (2 * math.pi * wave)
        blend = min(max((turns - low) / (high - low), 0.0), 1.0)
        freqs.append(1 / ((1 - blend) / (factor * wave) + blend / wave))
    return RopeSpec(dims, freqs=tuple(freqs), traditional=traditional)


def _yarn(settings: RopeSettings, dims: int, theta: float, traditional: bool) -> RopeSpec:
    """YaRN (Peng et al., 2023)."""
    length = settings.original_length()
    stretch = settings.max_positions / length if settings.max_positions else None
    factor = settings.positive("factor", stretch)

    def dimension(turns: float) -> float:
        return dims * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(theta))

    first = dimension(settings.positive("beta_fast", 32.0))
    last = dimension(settings.positive("beta_slow", 1.0))
    if settings.values.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, dims - 1)
    width = last - first or 0.001
    freqs = []
    for i, wave in enumerate(_series(theta, dims)):
        slowed = min(max((i - first) / width, 0.0), 1.0)
        freqs.append(1 / (slowed / (factor * wave) + (1 - slowed) / wave))
    return RopeSpec(
        dims,
        freqs=tuple(freqs),
        magnitude=_yarn_magnitude(settings, factor),
        traditional=traditional,
    )


def _yarn_magnitude(settings: RopeSettings, factor: float) -> float:
    def magnitude(strength: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * strength * math.log(factor) + 1.0

    over, under = settings.values.get("mscale"), settings.values.get("mscale_all_dim")
    default = magnitude(over) / magnitude(under) if over and under else magnitude(1.0)
    return settings.number("attention_factor", default)


def _longrope(settings: RopeSettings, dims: int, theta: float, traditional: bool) -> RopeSpec:
    """LongRoPE (Ding et al., 2024), as Phi-3 uses it."""
    length = settings.original_length()
    factor = settings.number("factor", (settings.max_positions or length) / length)
    default = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(length))
    waves = _series(theta, dims)

    def slowed(key: str) -> tuple[float, ...]:
        factors = settings.numbers(key, dims // 2)
        return tuple(wave * by for wave, by in zip(waves, factors, strict=True))

    return LongRopeSpec(
        dims,
        freqs=slowed("short_factor"),
        long_freqs=slowed("long_factor"),
        original_length=length,
        magnitude=settings.number("attention_factor", default),
        traditional=traditional,
    )


def _series(theta: float, dims: int) -> list[float]:
    return [theta ** (i / dims) for i in range(0, dims, 2)]


_KINDS: Mapping[str, Callable[[RopeSettings, int, float, bool], RopeSpec]] = {
    "default": _default,
    "proportional": _default,  # which reads its own share of the head
    "mrope": _default,  # of text alone, all three positions are one
    "linear": _linear,
    "dynamic": _dynamic,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
    "su": _longrope,
}
