"""RoPE settings of a GGUF file in Hugging Face's keys."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

Settings = dict[str, Any]


def rope_scaling(
    values: Mapping[str, Any], theta: float, tensors: Mapping[str, list[float]]
) -> Settings | None:
    """Return `rope_scaling`, None for plain RoPE.

    `values` are the file's `{architecture}.` settings; `tensors` has `rope_freqs`
    (Llama 3.1), or `rope_factors_long` and `rope_factors_short` (Phi-3), where present.
    """
    original = values.get("rope.scaling.original_context_length")
    if "rope_factors_long" in tensors:
        settings: Settings = {
            "rope_type": "longrope",
            "long_factor": tensors["rope_factors_long"],
            "short_factor": tensors["rope_factors_short"],
        }
        if factor := values.get("rope.scaling.attn_factor"):
            settings["attention_factor"] = factor
        return settings
    if factors := tensors.get("rope_freqs"):
        if all(factor == 1 for factor in factors):
            return None
        return _llama3(factors, theta) or _explicit(factors, values["context_length"])
    kind = values.get("rope.scaling.type", "linear" if "rope.scale_linear" in values else "none")
    factor = values.get("rope.scaling.factor", values.get("rope.scale_linear", 1.0))
    if kind == "none" or (kind == "linear" and factor == 1):
        return None
    settings = {"rope_type": kind, "factor": factor}
    if original is not None:
        settings["original_max_position_embeddings"] = original
    return settings


def _explicit(factors: list[float], context: int) -> Settings:
    """Any factors at all, as LongRoPE without its switch and its magnitude."""
    return {
        "rope_type": "longrope",
        "long_factor": factors,
        "short_factor": factors,
        "attention_factor": 1.0,
        "original_max_position_embeddings": context,
    }


def _llama3(factors: list[float], theta: float) -> Settings | None:
    """Return the settings that give these factors, None where none do.

    A factor is 1 / ((1 - s) / f + s), with s clipped to [0, 1] and linear in the turns a
    frequency makes per token: s = (turns * length - low) / (high - low). Only length /
    low and length / high matter, so low is 1.
    """
    by = np.asarray(factors, np.float64)
    turns = theta ** (-np.arange(len(by)) / len(by)) / (2 * math.pi)
    factor = by.max()
    if factor <= 1:
        return None
    s = (1 / by - 1 / factor) / (1 - 1 / factor)
    between = (s > 1e-4) & (s < 1 - 1e-4)
    if between.sum() < 2:
        return None
    slope, start = np.polyfit(turns[between], s[between], 1)
    if start >= 0:
        return None
    high = 1 - 1 / start
    length = slope * (high - 1)
    again = np.clip((turns * length - 1) / (high - 1), 0, 1)
    if not np.allclose(1 / ((1 - again) / factor + again), by, rtol=1e-5):
        return None
    return {
        "rope_type": "llama3",
        "factor": _tidy(factor),
        "low_freq_factor": 1.0,
        "high_freq_factor": _tidy(high),
        "original_max_position_embeddings": round(length),
    }


def _tidy(value: float) -> float:
    nearest = round(value)
    return float(nearest) if abs(value - nearest) < 1e-3 else float(value)
