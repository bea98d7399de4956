"""KV caches, masks and cache-aware attention for MLX, and prompt-cache files."""

from typing import TYPE_CHECKING

from mlxlm_cache.lazy import attach

if TYPE_CHECKING:
    from mlxlm_cache.arrays import ArraysCache
    from mlxlm_cache.attention import scaled_dot_product_attention
    from mlxlm_cache.base import Cache, Capabilities
    from mlxlm_cache.batch import Batch
    from mlxlm_cache.batch_chunked import BatchChunkedKVCache
    from mlxlm_cache.batch_kv import BatchKVCache
    from mlxlm_cache.batch_quantized import BatchQuantizedKVCache, BatchRotatingQuantizedKVCache
    from mlxlm_cache.batch_rotating import BatchRotatingKVCache
    from mlxlm_cache.cache_list import CacheList
    from mlxlm_cache.chunked import ChunkedKVCache
    from mlxlm_cache.concatenate import ConcatenateKVCache
    from mlxlm_cache.errors import (
        CacheError,
        CacheNotBounded,
        CacheNotMergeable,
        CacheNotQuantizable,
        CacheNotTrimmable,
        PromptFileError,
        UnknownCache,
    )
    from mlxlm_cache.files import PromptFile, load_prompt_cache, read_prompt_file, save_prompt_cache
    from mlxlm_cache.kv import KVCache
    from mlxlm_cache.masks import Mask, create_attention_mask, create_causal_mask
    from mlxlm_cache.prompt import (
        can_trim_prompt_cache,
        checkpoint_prompt_cache,
        make_prompt_cache,
        quantize_prompt_cache,
        trim_prompt_cache,
    )
    from mlxlm_cache.quantized import QuantizedKVCache
    from mlxlm_cache.quantized_attention import quantized_scaled_dot_product_attention
    from mlxlm_cache.registry import cache_class, register_cache
    from mlxlm_cache.rotating import RotatingKVCache
    from mlxlm_cache.rotating_quantized import RotatingQuantizedKVCache
    from mlxlm_cache.rows import (
        can_merge_prompt_cache,
        copy_prompt_cache,
        extend_prompt_cache,
        extract_prompt_cache,
        filter_prompt_cache,
        finalize_prompt_cache,
        merge_prompt_caches,
        prepare_prompt_cache,
        trim_prompt_rows,
    )
    from mlxlm_cache.token_buffer import TokenBuffer

__all__ = [
    "ArraysCache",
    "Batch",
    "BatchChunkedKVCache",
    "BatchKVCache",
    "BatchQuantizedKVCache",
    "BatchRotatingKVCache",
    "BatchRotatingQuantizedKVCache",
    "Cache",
    "CacheError",
    "CacheList",
    "CacheNotBounded",
    "CacheNotMergeable",
    "CacheNotQuantizable",
    "CacheNotTrimmable",
    "Capabilities",
    "ChunkedKVCache",
    "ConcatenateKVCache",
    "KVCache",
    "Mask",
    "PromptFile",
    "PromptFileError",
    "QuantizedKVCache",
    "RotatingKVCache",
    "RotatingQuantizedKVCache",
    "TokenBuffer",
    "UnknownCache",
    "cache_class",
    "can_merge_prompt_cache",
    "can_trim_prompt_cache",
    "checkpoint_prompt_cache",
    "copy_prompt_cache",
    "create_attention_mask",
    "create_causal_mask",
    "extend_prompt_cache",
    "extract_prompt_cache",
    "filter_prompt_cache",
    "finalize_prompt_cache",
    "load_prompt_cache",
    "make_prompt_cache",
    "merge_prompt_caches",
    "prepare_prompt_cache",
    "quantize_prompt_cache",
    "quantized_scaled_dot_product_attention",
    "read_prompt_file",
    "register_cache",
    "save_prompt_cache",
    "scaled_dot_product_attention",
    "trim_prompt_cache",
    "trim_prompt_rows",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "arrays": ["ArraysCache"],
        "attention": ["scaled_dot_product_attention"],
        "base": ["Cache", "Capabilities"],
        "batch": ["Batch"],
        "batch_chunked": ["BatchChunkedKVCache"],
        "batch_kv": ["BatchKVCache"],
        "batch_quantized": ["BatchQuantizedKVCache", "BatchRotatingQuantizedKVCache"],
        "batch_rotating": ["BatchRotatingKVCache"],
        "cache_list": ["CacheList"],
        "chunked": ["ChunkedKVCache"],
        "concatenate": ["ConcatenateKVCache"],
        "errors": [
            "CacheError",
            "CacheNotBounded",
            "CacheNotMergeable",
            "CacheNotQuantizable",
            "CacheNotTrimmable",
            "PromptFileError",
            "UnknownCache",
        ],
        "files": ["PromptFile", "load_prompt_cache", "read_prompt_file", "save_prompt_cache"],
        "kv": ["KVCache"],
        "masks": ["Mask", "create_attention_mask", "create_causal_mask"],
        "prompt": [
            "can_trim_prompt_cache",
            "checkpoint_prompt_cache",
            "make_prompt_cache",
            "quantize_prompt_cache",
            "trim_prompt_cache",
        ],
        "quantized": ["QuantizedKVCache"],
        "quantized_attention": ["quantized_scaled_dot_product_attention"],
        "registry": ["cache_class", "register_cache"],
        "rotating": ["RotatingKVCache"],
        "rotating_quantized": ["RotatingQuantizedKVCache"],
        "rows": [
            "can_merge_prompt_cache",
            "copy_prompt_cache",
            "extend_prompt_cache",
            "extract_prompt_cache",
            "filter_prompt_cache",
            "finalize_prompt_cache",
            "merge_prompt_caches",
            "prepare_prompt_cache",
            "trim_prompt_rows",
        ],
        "token_buffer": ["TokenBuffer"],
    },
)
