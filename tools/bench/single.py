"""One request at a time, mlxlm beside mlx-lm, on the same weights in the same run.

    python tools/bench/single.py --ours .venv/bin/python --peer PEER/bin/python \
        --model CHECKPOINT [--rounds 5] [--prompt-tokens 512] [--tokens 64]

Each round starts one process of each, alternating which goes first, so that a noisy
machine is noisy for both. Reports medians and their ratio. `CHECKPOINT` is a directory
that both can load. Figures: tokens per second of prefill and decode (higher is better),
seconds from process start to the first token, of importing, and peak memory of the
process in MB (lower is better). The order of the two matters to nobody: ratios above 1
mean that mlxlm is better for the first two, below 1 for the others.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

CHILD = r"""
import sys, time, resource, json
side, model, prompt_tokens, tokens = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if side == "ours":
    from mlxlm_cache.device import preload_blas
    preload_blas()
    from mlxlm_generate import stream_generate
    from mlxlm_models import load
else:
    from mlx_lm import load, stream_generate
model, tokenizer = load(model)
ids = [(7 * i) % 1000 + 100 for i in range(prompt_tokens)]
def run(n):
    times = []
    start = time.perf_counter()
    for response in stream_generate(model, tokenizer, ids, max_tokens=n):
        times.append(time.perf_counter())
    # The last response may come without a token of its own (it says why the text ended).
    times = times[:n]
    return len(ids) / (times[0] - start), (len(times) - 1) / (times[-1] - times[0])
for _ in stream_generate(model, tokenizer, ids, max_tokens=2):
    print("FIRST", time.time(), flush=True)  # the first line counts; the rest warms up
prefill, decode = run(tokens)
unit = 1024 if sys.platform == "linux" else 2**20
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
print("RESULT", json.dumps({
    "prefill tok/s": prefill, "decode tok/s": decode, "peak MB": peak,
}))
"""

IMPORTS = {"ours": "import mlxlm_generate; mlxlm_generate.generate", "peer": "import mlx_lm"}
HIGHER = ("prefill tok/s", "decode tok/s")
FIGURES = (*HIGHER, "first token s", "import s", "peak MB")


def child(python: str, side: str, arguments: argparse.Namespace) -> dict[str, float]:
    """Run one process of one side and return its figures."""
    command = [python, "-c", CHILD, side, arguments.model]
    command += [str(arguments.prompt_tokens), str(arguments.tokens)]
    start = time.time()
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    if done.returncode:
        sys.exit(f"{side} failed:\n{done.stderr}")
    said = [line.partition(" ") for line in done.stdout.splitlines()]
    figures = json.loads(next(text for name, _, text in said if name == "RESULT"))
    figures["first token s"] = (
        float(next(text for name, _, text in said if name == "FIRST")) - start
    )
    start = time.time()
    subprocess.run(
        [python, "-c", IMPORTS[side]], check=True, capture_output=True, env=environment()
    )
    figures["import s"] = time.time() - start
    return figures


def environment() -> dict[str, str]:
    return {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", default=sys.executable, help="Python with mlxlm")
    parser.add_argument("--peer", required=True, help="Python with mlx-lm")
    parser.add_argument("--model", required=True, help="a checkpoint directory that both load")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--json", type=Path, help="also write all figures here")
    arguments = parser.parse_args()

    rounds: dict[str, list[dict[str, float]]] = {"ours": [], "peer": []}
    for number in range(arguments.rounds):
        for side in ("ours", "peer") if number % 2 == 0 else ("peer", "ours"):
            python = arguments.ours if side == "ours" else arguments.peer
            rounds[side].append(child(python, side, arguments))
            print(number, side, rounds[side][-1], file=sys.stderr)
    print(f"{'median of ' + str(arguments.rounds):<16}{'ours':>10}{'mlx-lm':>10}{'ratio':>8}")
    for figure in FIGURES:
        ours, peer = (
            statistics.median(run[figure] for run in rounds[side]) for side in ("ours", "peer")
        )
        print(f"{figure:<16}{ours:>10.2f}{peer:>10.2f}{ours / peer:>8.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rounds, indent=1))


if __name__ == "__main__":
    main()
