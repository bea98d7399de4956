"""KV caches, masks and cache-aware attention for MLX, and prompt-cache files."""

from typing import TYPE_CHECKING

from mlxlm_cache.lazy import attach

if TYPE_CHECKING:
    from mlxlm_cache.attention import scaled_dot_product_attention
    from mlxlm_cache.base import Cache, Capabilities
    from mlxlm_cache.concatenate import ConcatenateKVCache
    from mlxlm_cache.cpu_attention import vectorized_attention
    from mlxlm_cache.cpu_exp import fast_exp, fast_exp_pays
    from mlxlm_cache.errors import (
        CacheError,
        CacheNotBounded,
        CacheNotQuantizable,
        CacheNotTrimmable,
        PromptFileError,
        UnknownCache,
    )
    from mlxlm_cache.files import (
        PromptFile,
        load_prompt_cache,
        read_prompt_file,
        save_prompt_cache,
    )
    from mlxlm_cache.kv import KVCache
    from mlxlm_cache.masks import Mask, create_attention_mask, create_causal_mask
    from mlxlm_cache.prompt import (
        can_trim_prompt_cache,
        make_prompt_cache,
        quantize_prompt_cache,
        trim_prompt_cache,
    )
    from mlxlm_cache.quantized import QuantizedKVCache
    from mlxlm_cache.quantized_attention import quantized_scaled_dot_product_attention
    from mlxlm_cache.query_blocks import attend_in_blocks
    from mlxlm_cache.registry import cache_class, register_cache
    from mlxlm_cache.rotating import RotatingKVCache

__all__ = [
    "Cache",
    "CacheError",
    "CacheNotBounded",
    "CacheNotQuantizable",
    "CacheNotTrimmable",
    "Capabilities",
    "ConcatenateKVCache",
    "KVCache",
    "Mask",
    "PromptFile",
    "PromptFileError",
    "QuantizedKVCache",
    "RotatingKVCache",
    "UnknownCache",
    "attend_in_blocks",
    "cache_class",
    "can_trim_prompt_cache",
    "vectorized_attention",
    "create_attention_mask",
    "create_causal_mask",
    "fast_exp",
    "fast_exp_pays",
    "load_prompt_cache",
    "make_prompt_cache",
    "quantize_prompt_cache",
    "quantized_scaled_dot_product_attention",
    "read_prompt_file",
    "register_cache",
    "save_prompt_cache",
    "scaled_dot_product_attention",
    "trim_prompt_cache",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "attention": ["scaled_dot_product_attention"],
        "base": ["Cache", "Capabilities"],
        "concatenate": ["ConcatenateKVCache"],
        "cpu_attention": ["vectorized_attention"],
        "errors": [
            "CacheError",
            "CacheNotBounded",
            "CacheNotQuantizable",
            "CacheNotTrimmable",
            "PromptFileError",
            "UnknownCache",
        ],
        "cpu_exp": ["fast_exp", "fast_exp_pays"],
        "files": ["PromptFile", "load_prompt_cache", "read_prompt_file", "save_prompt_cache"],
        "kv": ["KVCache"],
        "masks": ["Mask", "create_attention_mask", "create_causal_mask"],
        "prompt": [
            "can_trim_prompt_cache",
            "make_prompt_cache",
            "quantize_prompt_cache",
            "trim_prompt_cache",
        ],
        "quantized": ["QuantizedKVCache"],
        "quantized_attention": ["quantized_scaled_dot_product_attention"],
        "query_blocks": ["attend_in_blocks"],
        "registry": ["cache_class", "register_cache"],
        "rotating": ["RotatingKVCache"],
    },
)
