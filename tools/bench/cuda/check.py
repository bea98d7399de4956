"""Right answers: the GPU's against the CPU's, in relative error.

Run once for each device with the same seed; the parent compares what they write.
"""

import argparse
from typing import Any

parser = argparse.ArgumentParser()
parser.add_argument("device", choices=("cpu", "gpu"))
parser.add_argument("out")
arguments = parser.parse_args()

if arguments.device == "cpu":
    from mlxlm_cache.device import preload_blas

    preload_blas()

import mlx.core as mx  # noqa: E402
import mlx.nn as nn  # noqa: E402

mx.set_default_device(mx.Device(mx.cpu if arguments.device == "cpu" else mx.gpu))

from build import prepared, quantized, random_model  # noqa: E402
from mlxlm_cache import make_prompt_cache, scaled_dot_product_attention  # noqa: E402
from mlxlm_generate import generate_step  # noqa: E402
from shapes import SMALL, SMALL_MOE  # noqa: E402

ROWS = (1, 3, 8, 13, 32, 33, 70)
QUANTIZATIONS = {
    "4bit-32": (32, 4, "affine"),
    "4bit-64": (64, 4, "affine"),
    "4bit-128": (128, 4, "affine"),
    "8bit-64": (64, 8, "affine"),
    "mxfp4": (32, 4, "mxfp4"),
}
DTYPES = {"bfloat16": mx.bfloat16, "float16": mx.float16, "float32": mx.float32}

results: dict[str, mx.array] = {}


def normal(*shape: int, seed: int) -> mx.array:
    """Random numbers that are the same on every device, and in every 16-bit type."""
    with mx.stream(mx.cpu):
        drawn = mx.random.normal(shape, key=mx.random.key(seed)).astype(mx.bfloat16)
        mx.eval(drawn)
    return drawn


def exact() -> bool:
    """On CPU references are computed in float32, from the same 16-bit numbers."""
    return arguments.device == "cpu"


def products() -> None:
    weight = 0.02 * normal(768, 1024, seed=1)
    for rows in ROWS:
        x = normal(1, rows, 1024, seed=rows)
        for name, dtype in DTYPES.items():
            layer: Any = nn.Linear(1024, 768, bias=False)
            layer.weight = weight.astype(mx.float32 if exact() else dtype)
            record(f"product/dense/{name}/{rows}", layer, x, dtype)
        for label, (group_size, bits, mode) in QUANTIZATIONS.items():
            with mx.stream(mx.cpu):
                parts = mx.quantize(weight, group_size=group_size, bits=bits, mode=mode)
                mx.eval(parts)
            for name, dtype in DTYPES.items():
                layer = nn.QuantizedLinear(1024, 768, False, group_size, bits, mode)
                layer.weight, layer.scales = parts[0], parts[1]
                if mode == "affine":
                    kept = mx.float32 if exact() else dtype
                    layer.scales, layer.biases = (a.astype(kept) for a in parts[1:])
                record(f"product/{label}/{name}/{rows}", layer, x, dtype)


def record(name: str, layer: nn.Module, x: mx.array, dtype: mx.Dtype) -> None:
    holder = nn.Module()
    holder.layer = layer
    call: Any = prepared(holder).layer
    results[name] = call(x.astype(mx.float32 if exact() else dtype)).astype(mx.float32)


def attention() -> None:
    for length, size in ((1, 300), (5, 300), (130, 130), (70, 517)):
        q, k, v = (
            normal(2, heads, n, 64, seed=n + heads)
            for heads, n in ((8, length), (2, size), (2, size + 1))
        )
        for name, dtype in DTYPES.items():
            kept = mx.float32 if exact() else dtype
            out = scaled_dot_product_attention(
                q.astype(kept),
                k.astype(kept),
                v[:, :, 1:].astype(kept),
                None,
                scale=0.3,
                mask="causal" if length > 1 else None,
            )
            results[f"attention/{length}x{size}/{name}"] = out.astype(mx.float32)


def models() -> None:
    """Logits and greedy tokens in float32, of plain and packed weights and caches."""
    with mx.stream(mx.cpu):
        weights = random_model(SMALL, mx.float32)
        packed = quantized(random_model(SMALL, mx.float32))
        experts = random_model(SMALL_MOE, mx.float32)
    prompt = mx.arange(300) * 7 % SMALL["vocab_size"]
    for name, model in {"float32": weights, "4bit": packed, "moe": experts}.items():
        ready = prepared(model)
        results[f"logits/{name}"] = ready(prompt[None], cache=make_prompt_cache(ready))[0]
        for kv_bits in (None, 8, 4):
            steps = generate_step(
                prompt, ready, max_tokens=48, kv_bits=kv_bits, quantized_kv_start=0, logprobs=True
            )
            tokens, logprobs = zip(*steps, strict=True)
            label = f"{name}/kv{kv_bits or 32}"
            results[f"tokens/{label}"] = mx.array(tokens)
            results[f"first/{label}"] = mx.softmax(logprobs[0])


products()
attention()
models()
mx.save_safetensors(arguments.out, results)
