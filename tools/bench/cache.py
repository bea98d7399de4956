"""Caches, prompt-cache files and prefix reuse, mlxlm beside mlx-lm in the same run.

    python tools/bench/cache.py --ours .venv/bin/python --peer PEER/bin/python \
        [--rounds 15] [--context 2048] [--steps 64] [--megabytes 1024] [--file-rounds 3] \
        [--only QuantizedKVCache,files]

One process of each is asked for each figure in turn, and which goes first alternates: a
machine that is slow for a second is slow for both. Reports medians, and the median of the
ratios of neighbours; less is better throughout. Figures: microseconds of one layer's
`update_and_fetch` per 512-token chunk up to `--context` tokens, and per decode step from
there, of a new cache each round; seconds to save a cache of `--megabytes`, to open it, and to
open it and read everything, at once and when the system has it in memory no longer; and, in
percent of the entry's bytes, how far reuse of a 4096-token prefix raises the peak of memory.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CHILD = r"""
import gc, json, os, sys, time
side, folder = sys.argv[1:3]
context, steps, megabytes = map(int, sys.argv[3:])
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
CHUNK, LAYERS = 512, 16

def tokens(n):
    x = mx.random.normal((1, 8, n, 64)).astype(mx.float16)
    mx.eval(x)
    return x

def stack(length):
    made = [caches.KVCache() for _ in range(LAYERS)]
    for cache in made:
        cache.update_and_fetch(tokens(length), tokens(length))
        mx.eval(cache.state)
    return made

def update(cache, x):
    if hasattr(cache, "maybe_trim_front"):
        cache.maybe_trim_front()
    mx.eval(cache.update_and_fetch(x, x))

def microseconds(cache, x, n):
    start = time.perf_counter()
    for _ in range(n):
        update(cache, x)
    return (time.perf_counter() - start) / n * 1e6

def of_class(name):
    cache = KINDS[name]()
    figures = {f"{name} chunk us": microseconds(cache, chunk, max(1, context // CHUNK))}
    microseconds(cache, one, 8)
    return figures | {f"{name} step us": microseconds(cache, one, steps)}

def of_files():
    made = stack(megabytes * 2**20 // (LAYERS * 2 * 8 * 64 * 2))
    file = os.path.join(folder, f"{side}.safetensors")
    figures = {}
    start = time.perf_counter()
    caches.save_prompt_cache(file, made)
    figures["save s"] = time.perf_counter() - start
    with open(file, "rb") as written:
        os.fsync(written.fileno())
    figures["save until on the disk s"] = time.perf_counter() - start
    del made
    for when in ("at once", "later"):
        start = time.perf_counter()
        made = caches.load_prompt_cache(file)
        figures[f"open {when} s"] = time.perf_counter() - start
        mx.eval([cache.state for cache in made])
        figures[f"load {when} s"] = time.perf_counter() - start
        del made
        with open(file, "rb") as written:
            os.posix_fadvise(written.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        figures[f"save and load {when} s"] = figures["save s"] + figures[f"load {when} s"]
    os.unlink(file)
    return figures

def of_reuse():
    prefix = list(range(4096))
    lru = caches.LRUPromptCache()
    lru.insert_cache("model", prefix, stack(len(prefix)))
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    reused, _ = lru.fetch_nearest_cache("model", prefix + [1, 2])
    for _ in range(8):
        for cache in reused:
            update(cache, one)
    return {"reuse peak %": 100 * max(0, mx.get_peak_memory() - before) / lru.nbytes}

chunk, one = tokens(CHUNK), tokens(1)
for line in sys.stdin:
    asked = line.split()[0]
    made = {"files": of_files, "reuse": of_reuse}.get(asked, lambda: of_class(asked))()
    gc.collect()
    print(json.dumps(made), flush=True)
"""

KINDS = (
    "KVCache",
    "QuantizedKVCache",
    "RotatingKVCache",
    "ConcatenateKVCache",
    "ChunkedKVCache",
    "BatchKVCache",
    "BatchRotatingKVCache",
)

Figures = dict[str, float]


class Child:
    """A process of one side, that answers with figures."""

    def __init__(self, python: str, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [python, "-c", CHILD, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, what: str) -> Figures:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f"{self._process.args[0]} failed")  # type: ignore[index]
        figures: Figures = json.loads(answer)
        return figures

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def in_turn(ours: Child, peer: Child, what: str, rounds: int) -> list[tuple[Figures, Figures]]:
    """Ask both as often; return their figures in pairs."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            theirs = peer.ask(what)
            pairs.append((ours.ask(what), theirs))
        else:
            pairs.append((ours.ask(what), peer.ask(what)))
    return pairs


def report(pairs: list[tuple[Figures, Figures]]) -> None:
    for figure in pairs[0][0]:
        ours, theirs = zip(*((a[figure], b[figure]) for a, b in pairs), strict=True)
        ratios = [a / b for a, b in zip(ours, theirs, strict=True) if b]
        ratio = f"{statistics.median(ratios):>8.2f}" if ratios else ""
        a, b = statistics.median(ours), statistics.median(theirs)
        print(f"{figure:<28}{a:>12.4g}{b:>12.4g}{ratio}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", default=sys.executable, help="Python with mlxlm-cache")
    parser.add_argument("--peer", required=True, help="Python with mlx-lm")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--context", type=int, default=2048, help="tokens before the decode steps")
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--megabytes", type=int, default=1024, help="size of the cache on disk")
    parser.add_argument("--file-rounds", type=int, default=3)
    parser.add_argument("--folder", help="where to write it; a temporary folder by default")
    parser.add_argument("--json", type=Path, help="also write all figures here")
    parser.add_argument("--only", help="some of the classes, files, reuse; commas between them")
    arguments = parser.parse_args()

    everything = {}
    asked = [(name, arguments.rounds) for name in KINDS]
    asked += [("files", arguments.file_rounds), ("reuse", 1)]
    if arguments.only:
        asked = [(name, rounds) for name, rounds in asked if name in arguments.only.split(",")]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        numbers = (arguments.context, arguments.steps, arguments.megabytes)
        ours = Child(arguments.ours, "ours", folder, *numbers)
        peer = Child(arguments.peer, "peer", folder, *numbers)
        print(f"{'medians':<28}{'ours':>12}{'mlx-lm':>12}{'ratio':>8}")
        for what, rounds in asked:
            if rounds:
                everything[what] = in_turn(ours, peer, what, rounds)
                report(everything[what])
        ours.end()
        peer.end()
    if arguments.json:
        arguments.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
