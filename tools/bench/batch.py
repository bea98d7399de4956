"""Many requests at a time, mlxlm beside mlx-lm, on the same weights in the same run.

    python tools/bench/batch.py --ours .venv/bin/python --peer PEER/bin/python \
        --model CHECKPOINT [--sizes 1,8,32] [--rounds 5] [--prompt-tokens 128] [--tokens 64] \
        [--arrival 4096]

Each round starts one process of each side for all sizes, alternating which goes first, so
that a noisy machine is noisy for both. Prompts are of `--prompt-tokens` and less, down to
a half, and every request generates `--tokens` tokens. Figures, of which medians and ratios
are reported: for each batch size tokens generated per second of the whole run, prompts
included, and of the time in which all decode (higher is better); the worst gap in seconds
between two tokens of a running stream while a prompt of `--arrival` tokens comes in (lower
is better; 0 leaves it out).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

CHILD = r"""
import sys, time, json
side, model, sizes, prompt_tokens, tokens, arrival = sys.argv[1:]
sizes, prompt_tokens, tokens, arrival = (
    [int(n) for n in sizes.split(",")], int(prompt_tokens), int(tokens), int(arrival)
)
if side == "ours":
    from mlxlm_cache.device import preload_blas
    preload_blas()
    from mlxlm_generate import BatchGenerator
    from mlxlm_models import load
else:
    from mlx_lm import load
    from mlx_lm.generate import BatchGenerator
model, _ = load(model)

def prompt(number, length):
    return [(7 * i + 13 * number) % 1000 + 100 for i in range(length)]

def run(size, count):
    lengths = [prompt_tokens - (i * prompt_tokens) // (2 * size) for i in range(size)]
    generator = BatchGenerator(model, max_tokens=count)
    start = time.perf_counter()
    uids = generator.insert([prompt(i, n) for i, n in enumerate(lengths)])
    seen = {uid: 0 for uid in uids}
    total, all_began, at_begin = 0, None, 0
    while responses := generator.next_generated():
        for response in responses:
            seen[response.uid] += 1
        total += len(responses)
        if all_began is None and all(seen.values()):
            all_began, at_begin = time.perf_counter(), total
    end = time.perf_counter()
    generator.close()
    assert total == size * count, (total, size, count)
    return total / (end - start), (total - at_begin) / (end - all_began)

def gap(length):
    generator = BatchGenerator(model, max_tokens=10_000)
    (stream,) = generator.insert([prompt(0, 32)])
    for _ in range(8):
        generator.next_generated()
    (late,) = generator.insert([prompt(1, length)])
    last, worst, begun = time.perf_counter(), 0.0, 0
    while begun < 4:
        responses = generator.next_generated()
        now = time.perf_counter()
        if any(response.uid == stream for response in responses):
            worst, last = max(worst, now - last), now
        begun += any(response.uid == late for response in responses)
    generator.close()
    return worst

run(sizes[0], 2)
figures = {}
for size in sizes:
    figures[f"total tok/s {size}"], figures[f"decode tok/s {size}"] = run(size, tokens)
if arrival:
    figures["worst gap s"] = gap(arrival)
print("RESULT", json.dumps(figures))
"""


def child(python: str, side: str, arguments: argparse.Namespace) -> dict[str, float]:
    """Run one process of one side and return its figures."""
    command = [python, "-c", CHILD, side, arguments.model, arguments.sizes]
    command += [str(n) for n in (arguments.prompt_tokens, arguments.tokens, arguments.arrival)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{side} failed:\n{done.stderr}")
    said = [line.partition(" ") for line in done.stdout.splitlines()]
    figures: dict[str, float] = json.loads(next(text for name, _, text in said if name == "RESULT"))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", default=sys.executable, help="Python with mlxlm")
    parser.add_argument("--peer", required=True, help="Python with mlx-lm")
    parser.add_argument("--model", required=True, help="a checkpoint directory that both load")
    parser.add_argument("--sizes", default="1,8,32", help="batch sizes, with commas between them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--arrival", type=int, default=4096)
    parser.add_argument("--json", type=Path, help="also write all figures here")
    arguments = parser.parse_args()

    rounds: dict[str, list[dict[str, float]]] = {"ours": [], "peer": []}
    for number in range(arguments.rounds):
        for side in ("ours", "peer") if number % 2 == 0 else ("peer", "ours"):
            python = arguments.ours if side == "ours" else arguments.peer
            rounds[side].append(child(python, side, arguments))
            print(number, side, rounds[side][-1], file=sys.stderr)
    print(f"{'median of ' + str(arguments.rounds):<18}{'ours':>10}{'mlx-lm':>10}{'ratio':>8}")
    for figure in rounds["ours"][0]:
        ours, peer = (
            statistics.median(run[figure] for run in rounds[side]) for side in ("ours", "peer")
        )
        print(f"{figure:<18}{ours:>10.2f}{peer:>10.2f}{ours / peer:>8.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rounds, indent=1))


if __name__ == "__main__":
    main()
