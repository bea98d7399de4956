"""Caches, prompt-cache files and prefix reuse, mlxlm beside mlx-lm in the same run.

    python tools/bench/cache.py --ours .venv/bin/python --peer PEER/bin/python \
        [--rounds 5] [--context 2048] [--steps 64] [--repeats 9] [--megabytes 1024]

Each round starts one process of each, alternating which goes first, so that a noisy
machine is noisy for both. Reports medians and their ratio; less is better throughout.
Figures: microseconds of one layer's `update_and_fetch` per 512-token chunk up to
`--context` tokens, and per decode step from there (medians over `--repeats` new caches of
each class in turn); seconds to save a cache of `--megabytes`, to
open it, and to open it and read everything; and, in percent of the entry's bytes, how far
reuse of a 4096-token prefix raises the peak of memory.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CHILD = r"""
import gc, json, os, statistics, sys, time
side, folder = sys.argv[1:3]
context, steps, repeats, megabytes = map(int, sys.argv[3:])
if side == "ours":
    from mlxlm_cache.device import preload_blas
    preload_blas()
    import mlxlm_cache as caches
else:
    import mlx_lm.models.cache as caches
import mlx.core as mx

KINDS = {
    "KVCache": lambda: caches.KVCache(),
    "QuantizedKVCache": lambda: caches.QuantizedKVCache(group_size=64, bits=8),
    "RotatingKVCache": lambda: caches.RotatingKVCache(max_size=1024, keep=4),
    "ConcatenateKVCache": lambda: caches.ConcatenateKVCache(),
    "ChunkedKVCache": lambda: caches.ChunkedKVCache(1024),
    "BatchKVCache": lambda: caches.BatchKVCache([0]),
    "BatchRotatingKVCache": lambda: caches.BatchRotatingKVCache(1024, [0]),
}
CHUNK = 512

def tokens(n):
    x = mx.random.normal((1, 8, n, 64)).astype(mx.float16)
    mx.eval(x)
    return x

def update(cache, x):
    if hasattr(cache, "maybe_trim_front"):
        cache.maybe_trim_front()
    mx.eval(cache.update_and_fetch(x, x))

def microseconds(cache, x, n):
    start = time.perf_counter()
    for _ in range(n):
        update(cache, x)
    return (time.perf_counter() - start) / n * 1e6

chunk, one = tokens(CHUNK), tokens(1)
runs = {f"{name} {what} us": [] for name in KINDS for what in ("chunk", "step")}
for _ in range(repeats):
    for name, make in KINDS.items():
        cache = make()
        runs[f"{name} chunk us"].append(microseconds(cache, chunk, max(1, context // CHUNK)))
        microseconds(cache, one, 8)
        runs[f"{name} step us"].append(microseconds(cache, one, steps))
        del cache
figures = {name: statistics.median(values) for name, values in runs.items()}

LAYERS = 16
length = megabytes * 2**20 // (LAYERS * 2 * 8 * 64 * 2)
stack = [caches.KVCache() for _ in range(LAYERS)]
for c in stack:
    c.update_and_fetch(tokens(length), tokens(length))
    mx.eval(c.state)
file = os.path.join(folder, f"{side}.safetensors")
start = time.perf_counter()
caches.save_prompt_cache(file, stack)
figures["save s"] = time.perf_counter() - start
del stack, c
start = time.perf_counter()
stack = caches.load_prompt_cache(file)
figures["open s"] = time.perf_counter() - start
mx.eval([c.state for c in stack])
figures["load s"] = time.perf_counter() - start
del stack
os.unlink(file)

prefix = list(range(4096))
stack = [caches.KVCache() for _ in range(LAYERS)]
for c in stack:
    c.update_and_fetch(tokens(len(prefix)), tokens(len(prefix)))
    mx.eval(c.state)
lru = caches.LRUPromptCache()
lru.insert_cache("model", prefix, stack)
del stack, c
gc.collect()
mx.clear_cache()
before = mx.get_active_memory()
mx.reset_peak_memory()
reused, _ = lru.fetch_nearest_cache("model", prefix + [1, 2])
for _ in range(8):
    for c in reused:
        update(c, one)
figures["reuse peak %"] = 100 * max(0, mx.get_peak_memory() - before) / lru.nbytes
print(json.dumps(figures))
"""


def child(python: str, side: str, arguments: argparse.Namespace, folder: str) -> dict[str, float]:
    """Run one process of one side and return its figures."""
    a = arguments
    numbers = map(str, (a.context, a.steps, a.repeats, a.megabytes))
    done = subprocess.run(
        [python, "-c", CHILD, side, folder, *numbers], capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{side} failed:\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", default=sys.executable, help="Python with mlxlm-cache")
    parser.add_argument("--peer", required=True, help="Python with mlx-lm")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--context", type=int, default=2048, help="tokens before the decode steps")
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=9, help="new caches of each class")
    parser.add_argument("--megabytes", type=int, default=1024, help="size of the cache on disk")
    parser.add_argument("--folder", help="where to write it; a temporary folder by default")
    parser.add_argument("--json", type=Path, help="also write all figures here")
    arguments = parser.parse_args()

    rounds: dict[str, list[dict[str, float]]] = {"ours": [], "peer": []}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for number in range(arguments.rounds):
            for side in ("ours", "peer") if number % 2 == 0 else ("peer", "ours"):
                python = arguments.ours if side == "ours" else arguments.peer
                rounds[side].append(child(python, side, arguments, folder))
                print(number, side, rounds[side][-1], file=sys.stderr)
    print(f"{'median of ' + str(arguments.rounds):<28}{'ours':>12}{'mlx-lm':>12}{'ratio':>8}")
    for figure in (f for f in rounds["ours"][0] if f in rounds["peer"][0]):
        ours, peer = (
            statistics.median(run[figure] for run in rounds[side]) for side in ("ours", "peer")
        )
        ratio = f"{ours / peer:>8.2f}" if peer else ""
        print(f"{figure:<28}{ours:>12.4g}{peer:>12.4g}{ratio}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rounds, indent=1))


if __name__ == "__main__":
    main()
