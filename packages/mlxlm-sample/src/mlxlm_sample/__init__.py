"""Samplers and logits processors for language models on MLX.

Every public name loads on first use (PEP 562): importing the package does not import MLX,
and `SAMPLING`, the options and `xtc_special_tokens` never do.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlxlm_sample.defaults import SAMPLING as SAMPLING
    from mlxlm_sample.defaults import SamplingDefaults as SamplingDefaults
    from mlxlm_sample.draw import categorical_sampling as categorical_sampling
    from mlxlm_sample.errors import SamplingOptionError as SamplingOptionError
    from mlxlm_sample.errors import SamplingWarning as SamplingWarning
    from mlxlm_sample.filters import apply_min_p as apply_min_p
    from mlxlm_sample.filters import apply_top_k as apply_top_k
    from mlxlm_sample.filters import apply_top_p as apply_top_p
    from mlxlm_sample.filters import apply_xtc as apply_xtc
    from mlxlm_sample.keys import KeyStream as KeyStream
    from mlxlm_sample.keys import fold_in as fold_in
    from mlxlm_sample.options import ProcessorOptions as ProcessorOptions
    from mlxlm_sample.options import SamplingOptions as SamplingOptions
    from mlxlm_sample.processors import LogitsProcessor as LogitsProcessor
    from mlxlm_sample.processors import combined_options as combined_options
    from mlxlm_sample.processors import make_frequency_penalty as make_frequency_penalty
    from mlxlm_sample.processors import make_logit_bias as make_logit_bias
    from mlxlm_sample.processors import make_logits_processors as make_logits_processors
    from mlxlm_sample.processors import make_presence_penalty as make_presence_penalty
    from mlxlm_sample.processors import make_repetition_penalty as make_repetition_penalty
    from mlxlm_sample.row_processors import RowProcessors as RowProcessors
    from mlxlm_sample.rows import RowSampler as RowSampler
    from mlxlm_sample.sampler import Sampler as Sampler
    from mlxlm_sample.sampler import make_sampler as make_sampler
    from mlxlm_sample.special import xtc_special_tokens as xtc_special_tokens

_EXPORTS = {
    "defaults": ("SAMPLING", "SamplingDefaults"),
    "draw": ("categorical_sampling",),
    "errors": ("SamplingOptionError", "SamplingWarning"),
    "filters": ("apply_min_p", "apply_top_k", "apply_top_p", "apply_xtc"),
    "keys": ("KeyStream", "fold_in"),
    "options": ("ProcessorOptions", "SamplingOptions"),
    "processors": (
        "LogitsProcessor",
        "combined_options",
        "make_frequency_penalty",
        "make_logit_bias",
        "make_logits_processors",
        "make_presence_penalty",
        "make_repetition_penalty",
    ),
    "row_processors": ("RowProcessors",),
    "rows": ("RowSampler",),
    "sampler": ("Sampler", "make_sampler"),
    "special": ("xtc_special_tokens",),
}
_HOME = {name: module for module, names in _EXPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "mlx" or "libmlx" in str(error):
            raise ImportError(
                "MLX has no backend in this environment: "
                "pip install 'mlxlm-sample[cpu]' (or [cuda12], [cuda13]).",
                name=error.name,
            ) from error
        raise


def __dir__() -> list[str]:
    return sorted(_HOME)
