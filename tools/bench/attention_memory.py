"""Peak memory of a prompt with float, 8-bit and 4-bit keys and values.

    python tools/bench/attention_memory.py [--tokens 8192] [--chunk 2048] [--layers 16]
        [--no-mlp] [--float32]

A stack of Llama-3.2-1B's shape with random weights, on MLX's default device. Peaks are
beyond the weights, in MB, of `mx.get_peak_memory`; seconds are of this process's CPU on
the CPU backend and of the clock elsewhere. On CPU 8192 tokens take minutes; there the
layers without their MLPs (--no-mlp) say as much about keys and values.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

from mlxlm_cache.device import backend, preload_blas

preload_blas()

import mlx.core as mx  # noqa: E402
from mlxlm_cache import (  # noqa: E402
    Cache,
    KVCache,
    QuantizedKVCache,
    scaled_dot_product_attention,
)

HIDDEN, HEADS, KV_HEADS, DIM, INNER = 2048, 32, 8, 64, 8192
CACHES: dict[str, Callable[[], Cache]] = {
    "float": KVCache,
    "8 bits": lambda: QuantizedKVCache(bits=8),
    "4 bits": lambda: QuantizedKVCache(bits=4),
}


class Layer:
    def __init__(self, mlp: bool, dtype: mx.Dtype) -> None:
        def weight(*shape: int) -> mx.array:
            return mx.random.normal(shape, scale=shape[0] ** -0.5).astype(dtype)

        self.qkv = weight(HIDDEN, (HEADS + 2 * KV_HEADS) * DIM)
        self.out = weight(HEADS * DIM, HIDDEN)
        self.mlp = [weight(HIDDEN, INNER), weight(HIDDEN, INNER), weight(INNER, HIDDEN)]
        if not mlp:
            self.mlp = []
        mx.eval(self.qkv, self.out, self.mlp)

    def __call__(self, x: mx.array, cache: Any) -> mx.array:
        heads = (mx.fast.rms_norm(x, None, 1e-5) @ self.qkv).reshape(*x.shape[:2], -1, DIM)
        q, k, v = mx.split(heads.transpose(0, 2, 1, 3), [HEADS, HEADS + KV_HEADS], axis=1)
        q = mx.fast.rope(q, DIM, traditional=False, base=5e5, scale=1.0, offset=cache.offset)
        k = mx.fast.rope(k, DIM, traditional=False, base=5e5, scale=1.0, offset=cache.offset)
        keys, values = cache.update_and_fetch(k, v)
        out = scaled_dot_product_attention(q, keys, values, cache, DIM**-0.5, "causal")
        x = x + out.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1) @ self.out
        if self.mlp:
            gate, up, down = self.mlp
            inner = mx.fast.rms_norm(x, None, 1e-5)
            hidden = inner @ gate
            x = x + (hidden * mx.sigmoid(hidden) * (inner @ up)) @ down
        return x


def prefill(layers: Sequence[Layer], caches: Sequence[Cache], tokens: int, chunk: int) -> mx.array:
    """Run a prompt of random embeddings; return the last one's hidden state."""
    dtype = layers[0].qkv.dtype
    for start in range(0, tokens, chunk):
        shape = (1, min(chunk, tokens - start), HIDDEN)
        x = mx.random.normal(shape, key=mx.random.key(start)).astype(dtype)
        for layer, cache in zip(layers, caches, strict=True):
            x = layer(x, cache)
        mx.eval(x, [cache.state for cache in caches])
    return x[:, -1].astype(mx.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--chunk", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--no-mlp", action="store_true", help="leave the MLPs out")
    parser.add_argument("--float32", action="store_true", help="as on CPU; else bfloat16")
    arguments = parser.parse_args()
    on_cpu = backend() == "cpu"
    dtype = mx.float32 if on_cpu or arguments.float32 else mx.bfloat16
    layers = [Layer(not arguments.no_mlp, dtype) for _ in range(arguments.layers)]
    clock = time.process_time if on_cpu else time.perf_counter

    print(f"{backend()}, {dtype}, {arguments.tokens} tokens in chunks of {arguments.chunk}")
    print("keys and values    cache MB    peak MB    seconds    difference")
    reference: mx.array | None = None
    for name, make in CACHES.items():
        caches = [make() for _ in layers]
        mx.clear_cache()
        mx.reset_peak_memory()
        before, start = mx.get_active_memory(), clock()
        out = prefill(layers, caches, arguments.tokens, arguments.chunk)
        seconds, peak = clock() - start, mx.get_peak_memory() - before
        held = sum(cache.nbytes for cache in caches)
        reference = out if reference is None else reference
        off = mx.abs(out - reference).max() / mx.abs(reference).max()
        print(
            f"{name:15} {held / 1e6:11.0f} {peak / 1e6:10.0f} {seconds:10.1f} {off.item():13.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
