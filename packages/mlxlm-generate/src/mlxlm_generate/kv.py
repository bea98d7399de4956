"""The cache that a generation works on."""

import sys
from dataclasses import dataclass

from mlxlm_cache import Cache, make_prompt_cache, quantize_prompt_cache

from mlxlm_generate.errors import InvalidOption
from mlxlm_generate.protocols import Model


@dataclass(frozen=True)
class KVQuantization:
    """Keys and values take `bits` bits from the step at which there are `start` tokens."""

    bits: int
    group_size: int
    start: int


def kv_quantization(bits: int | None, group_size: int, start: int) -> KVQuantization | None:
    if start < 0:
        raise InvalidOption(f"quantized_kv_start={start}: give a number of tokens, 0 or more.")
    return None if bits is None else KVQuantization(bits, group_size, start)


def working_cache(
    model: Model,
    prompt_cache: list[Cache] | None,
    max_kv_size: int | None,
    quantization: KVQuantization | None,
) -> list[Cache]:
    """Return the caller's cache, or a new one, when it can do what is asked."""
    if prompt_cache is None:
        cache = make_prompt_cache(model, max_kv_size)
    elif max_kv_size is not None:
        raise InvalidOption(
            f"max_kv_size={max_kv_size} can't bound the prompt_cache that is given: make that "
            "with make_prompt_cache(model, max_kv_size), and leave max_kv_size out here."
        )
    else:
        cache = prompt_cache
        layers = len(make_prompt_cache(model))
        if len(cache) != layers:
            raise InvalidOption(
                f"prompt_cache has {len(cache)} layers, the model {layers}: it was made for "
                "another model. Make one with make_prompt_cache(model)."
            )
    if quantization is not None:
        # Raises now what it would raise once there are enough tokens.
        quantize_prompt_cache(
            cache, bits=quantization.bits, group_size=quantization.group_size, start=sys.maxsize
        )
    return cache
