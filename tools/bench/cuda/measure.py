"""Speed beside mlx-lm: the same weights in one process, both sides in turn."""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from build import peer_model, prepared, quantized, random_model, read_per_token
from mlx_lm.generate import BatchGenerator as PeerGenerator
from mlx_lm.generate import generate_step as peer_step
from mlx_lm.models.cache import make_prompt_cache as peer_cache
from mlxlm_cache import make_prompt_cache
from mlxlm_generate import BatchGenerator, generate_step
from shapes import MODELS

Side = tuple[str, nn.Module, Callable[..., Any], Callable[..., Any]]


def copy_bandwidth() -> float:
    """Return bytes read and written per second by a large copy."""
    source = mx.random.uniform(shape=(1 << 30,)).astype(mx.bfloat16)
    mx.eval(source)
    times = []
    for _ in range(8):
        start = time.perf_counter()
        copy = source + 1
        mx.eval(copy)
        del copy
        times.append(time.perf_counter() - start)
    return 2 * source.nbytes / min(times)


def generate(side: Side, prompt: int, tokens: int) -> float:
    """Return tokens per second of greedy decoding through generate_step, after the first."""
    _, model, _, step = side
    ids = mx.arange(prompt) % 1000
    times = []
    for _ in step(ids, model, max_tokens=tokens):
        times.append(time.perf_counter())
    return (len(times) - 1) / (times[-1] - times[0])


def loop(side: Side, batch: int, prompt: int, steps: int) -> float:
    """Return tokens per second of the bare model loop: plain caches of equal lengths."""
    _, model, make_cache, _ = side
    cache = make_cache(model)
    ids = mx.ones((batch, prompt), mx.int32)
    mx.eval(model(ids, cache=cache)[:, -1])

    def launch(tokens: mx.array) -> mx.array:
        following = mx.argmax(model(tokens, cache=cache)[:, -1], axis=-1)[:, None]
        mx.async_eval(following)
        return following

    tokens = launch(mx.zeros((batch, 1), mx.int32))
    mx.eval(tokens)
    start = time.perf_counter()
    tokens = launch(tokens)
    for _ in range(steps - 1):
        following = launch(tokens)
        mx.eval(tokens)
        tokens = following
    mx.eval(tokens)
    return batch * steps / (time.perf_counter() - start)


def engine(side: Side, batch: int, prompt: int, steps: int) -> float:
    """Return tokens per second of BatchGenerator, while all of the batch decode."""
    name, model, *_ = side
    make: Any = BatchGenerator if name == "mlxlm" else PeerGenerator
    generator = make(
        model, max_tokens=steps + 1, completion_batch_size=batch, prefill_batch_size=batch
    )
    uids = generator.insert(
        [[(7 * i + 13 * n) % 1000 for i in range(prompt)] for n in range(batch)]
    )
    waiting, tokens, start, end = set(uids), 0, 0.0, 0.0
    while responses := generator.next_generated():
        now = time.perf_counter()
        if waiting:
            waiting -= {response.uid for response in responses}
            start = now
        elif not end:
            tokens += len(responses)
            if any(response.finish_reason for response in responses):
                end = now
    generator.close()
    return tokens / (end - start)


def first_token(side: Side, length: int) -> float:
    """Return prompt tokens per second up to the first token, through generate_step."""
    _, model, _, step = side
    ids = mx.arange(length) * 7 % 1000
    mx.eval(ids)
    start = time.perf_counter()
    next(iter(step(ids, model, max_tokens=1)))
    return length / (time.perf_counter() - start)


def bare_forward(side: Side, length: int) -> float:
    """Return prompt tokens per second of one call of the model, all logits included."""
    _, model, make_cache, _ = side
    cache = make_cache(model)
    ids = (mx.arange(length) * 7 % 1000)[None]
    mx.eval(ids)
    start = time.perf_counter()
    mx.eval(model(ids, cache=cache)[:, -1], [layer.state for layer in cache])
    return length / (time.perf_counter() - start)


def in_turn(
    name: str, sides: list[Side], run: Callable[[Side], float], rounds: int, warm: bool = True
) -> dict[str, Any]:
    """Run `rounds` of each side, alternating which is first; one more to warm up."""
    figures: dict[str, list[float]] = {side[0]: [] for side in sides}
    for number in range(rounds + warm):
        for side in sides if number % 2 == 0 else sides[::-1]:
            value = run(side)
            if number or not warm:
                figures[side[0]].append(round(value, 1))
    row = {"name": name, **{who: statistics.median(values) for who, values in figures.items()}}
    row["all"] = figures
    print("ROW", json.dumps(row), flush=True)
    return row


def cold_lengths(name: str, sides: list[Side], start: int, count: int) -> None:
    """Each prompt of a length that this process has not seen."""
    lengths = iter(range(start, start + 2 * count))
    in_turn(name, sides, lambda side: first_token(side, next(lengths)), count, warm=False)


def kinds(config: dict[str, Any], dtype: mx.Dtype) -> dict[str, Callable[[], nn.Module]]:
    return {
        "bf16": lambda: random_model(config, dtype),
        "4-bit": lambda: quantized(random_model(config, dtype)),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="models that a CPU can do")
    parser.add_argument("--model", choices=MODELS, default="llama")
    parser.add_argument("--only", help="bf16 or 4-bit")
    arguments = parser.parse_args()
    config = MODELS[arguments.model][arguments.small]
    shrink = 16 if arguments.small else 1
    bandwidth = 1e11 if arguments.small else copy_bandwidth()
    print("COPY", round(bandwidth / 1e12, 2), "TB/s", flush=True)
    for kind, make in kinds(config, mx.bfloat16).items():
        if arguments.only in (None, kind):
            measure(arguments.model, config, kind, make(), bandwidth, shrink)
            mx.clear_cache()


def measure(
    name: str, config: dict[str, Any], kind: str, model: nn.Module, bandwidth: float, shrink: int
) -> None:
    """Print a row for each figure, all lengths divided by `shrink`."""
    peer = peer_model(config, model)
    sides: list[Side] = [
        ("mlxlm", prepared(model), make_prompt_cache, generate_step),
        ("mlx-lm", peer, peer_cache, peer_step),
    ]
    kind = f"{name} {kind}"
    print("ROOF", kind, round(bandwidth / read_per_token(model, config), 1), "steps/s", flush=True)
    short, long = 2048 // shrink, 16384 // shrink
    whole = name == "llama"  # of the others the main figures
    if whole:
        cold_lengths(f"{kind} prefill, new lengths", sides, short - 60 // shrink, 4)
    in_turn(f"{kind} prefill {short}", sides, partial(first_token, length=short), rounds=5)
    in_turn(f"{kind} prefill {short}, bare", sides, partial(bare_forward, length=short), 3)
    in_turn(f"{kind} prefill {long}", sides, partial(first_token, length=long), rounds=2)
    for tokens in (200, 700) if whole else (200,):
        run = partial(generate, prompt=128, tokens=tokens // shrink)
        in_turn(f"{kind} decode 1, {tokens} tokens", sides, run, rounds=5 if tokens < 700 else 2)
    for batch in (1, 8, 32, 128) if whole else (1, 32):
        rounds = 3 if batch < 32 else 2
        run = partial(engine, batch=batch, prompt=128, steps=128 // shrink)
        in_turn(f"{kind} decode {batch}, BatchGenerator", sides, run, rounds)
        run = partial(loop, batch=batch, prompt=128, steps=max(8, 64 // shrink))
        in_turn(f"{kind} decode {batch}, bare loop", sides, run, rounds)


if __name__ == "__main__":
    main()
