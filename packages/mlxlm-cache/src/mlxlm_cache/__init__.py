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
    from mlxlm_cache.cpu_attention import vectorized_attention
    from mlxlm_cache.cpu_exp import fast_exp, fast_exp_pays
    from mlxlm_cache.disk.tier import DiskPromptCache
    from mlxlm_cache.errors import (
        CacheError,
        CacheMismatch,
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
        can_checkpoint_prompt_cache,
        can_trim_prompt_cache,
        checkpoint_prompt_cache,
        make_prompt_cache,
        quantize_prompt_cache,
        trim_prompt_cache,
    )
    from mlxlm_cache.quantized import QuantizedKVCache
    from mlxlm_cache.quantized_attention import quantized_scaled_dot_product_attention
    from mlxlm_cache.query_blocks import attend_in_blocks
    from mlxlm_cache.registry import cache_class, register_cache
    from mlxlm_cache.reuse.lru import LRUPromptCache
    from mlxlm_cache.reuse.trie import PromptTrie, PromptTrieResult
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
    from mlxlm_cache.writing import NotAFile, regular_file, whole_file

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
    "CacheMismatch",
    "CacheNotBounded",
    "CacheNotMergeable",
    "CacheNotQuantizable",
    "CacheNotTrimmable",
    "Capabilities",
    "ChunkedKVCache",
    "ConcatenateKVCache",
    "DiskPromptCache",
    "KVCache",
    "LRUPromptCache",
    "Mask",
    "NotAFile",
    "PromptFile",
    "PromptFileError",
    "PromptTrie",
    "PromptTrieResult",
    "QuantizedKVCache",
    "RotatingKVCache",
    "RotatingQuantizedKVCache",
    "TokenBuffer",
    "UnknownCache",
    "attend_in_blocks",
    "cache_class",
    "can_merge_prompt_cache",
    "can_checkpoint_prompt_cache",
    "can_trim_prompt_cache",
    "checkpoint_prompt_cache",
    "copy_prompt_cache",
    "create_attention_mask",
    "create_causal_mask",
    "extend_prompt_cache",
    "extract_prompt_cache",
    "fast_exp",
    "fast_exp_pays",
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
    "regular_file",
    "save_prompt_cache",
    "scaled_dot_product_attention",
    "trim_prompt_cache",
    "trim_prompt_rows",
    "vectorized_attention",
    "whole_file",
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
        "disk.tier": ["DiskPromptCache"],
        "cpu_attention": ["vectorized_attention"],
        "errors": [
            "CacheError",
            "CacheMismatch",
            "CacheNotBounded",
            "CacheNotMergeable",
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
            "can_checkpoint_prompt_cache",
            "can_trim_prompt_cache",
            "checkpoint_prompt_cache",
            "make_prompt_cache",
            "quantize_prompt_cache",
            "trim_prompt_cache",
        ],
        "quantized": ["QuantizedKVCache"],
        "quantized_attention": ["quantized_scaled_dot_product_attention"],
        "query_blocks": ["attend_in_blocks"],
        "registry": ["cache_class", "register_cache"],
        "reuse.lru": ["LRUPromptCache"],
        "reuse.trie": ["PromptTrie", "PromptTrieResult"],
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
        "writing": ["NotAFile", "regular_file", "whole_file"],
    },
)
