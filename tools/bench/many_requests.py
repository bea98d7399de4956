"""Memory while many requests go through one `BatchGenerator`.

    python tools/bench/many_requests.py [--requests 20000] [--at-once 16]

A toy model; requests of mixed lengths, sampled and not, a third of them with n-gram
guesses, some removed on the way. Prints the bytes that MLX holds and the process's peak
(MB) at each tenth, which vary with what runs then. At the end nothing runs, and it fails
where MLX then holds much more than before the first request.
"""

import argparse
import random
import resource
import sys
from time import perf_counter

from mlxlm_cache.device import preload_blas

preload_blas()

import mlx.core as mx  # noqa: E402
from mlxlm_generate import BatchGenerator, NGramDrafter, Request  # noqa: E402
from mlxlm_models.registry import get_architecture  # noqa: E402
from mlxlm_sample import make_sampler  # noqa: E402

_SPARE = 2**20  # bytes: arrays of offsets and settings that are kept for the next request

CONFIG = {
    "model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "vocab_size": 128,
    "tie_word_embeddings": True, "rope_theta": 10000.0, "max_position_embeddings": 4096,
    "head_dim": 16,
}  # fmt: skip


def request(draw: random.Random) -> Request:
    return Request(
        [[draw.randrange(128) for _ in range(draw.randint(1, 40))]],
        draw.randint(1, 12),
        sampler=make_sampler(0.8, key=draw.randrange(1000)) if draw.random() < 0.5 else None,
        drafter=NGramDrafter(2, 1) if draw.random() < 0.33 else None,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--at-once", type=int, default=16)
    options = parser.parse_args()
    mx.random.seed(0)
    model, _ = get_architecture("llama").create(CONFIG)
    mx.eval(model.parameters())
    before = mx.get_active_memory()
    draw, start = random.Random(0), perf_counter()
    held: list[int] = []
    unit = 1024 if sys.platform == "linux" else 2**20
    most = options.at_once
    with BatchGenerator(model, completion_batch_size=most, prefill_batch_size=most) as generator:
        sent, done = 0, 0
        while done < options.requests:
            while sent < options.requests and generator.waiting < most:
                generator.submit([request(draw)])
                sent += 1
            _, responses = generator.next()
            running = [r.uid for r in responses if r.finish_reason is None]
            ended = {r.uid for r in responses if r.finish_reason is not None}
            alive = [uid for uid in dict.fromkeys(running) if uid not in ended]
            if alive and draw.random() < 0.02:
                generator.remove(alive[:1])
                done += 1
            done += len(ended)
            if done * 10 // options.requests > len(held):
                del responses
                mx.synchronize()
                held.append(mx.get_active_memory())
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
                print(
                    f"{done:>7} requests {perf_counter() - start:>7.1f} s "
                    f"{held[-1]:>10} bytes in MLX {peak:>7.0f} MB peak",
                    flush=True,
                )
    if held[-1] > before + _SPARE:
        sys.exit("Memory grows.")


if __name__ == "__main__":
    main()
