"""Many requests at a time, mlxlm beside mlx-lm, on the same weights in the same run.

    python tools/bench/batch.py --ours .venv/bin/python --peer PEER/bin/python \
        --model CHECKPOINT [--sizes 1,4,8,16] [--rounds 5] [--prompt-tokens 128] \
        [--tokens 64] [--arrival 4096] [--sides ours,peer+blas]

Prompts are of `--prompt-tokens` and less, down to a half, and every request generates
`--tokens` tokens. Figures, of which medians and ratios are reported: for each batch size
tokens generated per second of the whole run, prompts included, and of the time in which
all decode (higher is better); the worst gap in seconds between two tokens of a running
stream while a prompt of `--arrival` tokens comes in (lower is better; 0 leaves it out, as
an empty `--sizes` does the others). On a Linux CPU mlx-lm itself prefills some tens of
times slower than with the BLAS that mlxlm loads: the sides compared by default both have
that one; `--sides ours,peer` compares with mlx-lm as it comes, and wants short prompts.
See `beside` for how sides are run.
"""

from beside import compare, parser

PROGRAM = r"""
import sys, time, json
side, model, sizes, prompt_tokens, tokens, arrival = sys.argv[1:]
sizes, prompt_tokens, tokens, arrival = (
    [int(n) for n in sizes.split(",") if n], int(prompt_tokens), int(tokens), int(arrival)
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

if sizes:
    run(sizes[0], 2)
figures = {}
for size in sizes:
    figures[f"total tok/s {size}"], figures[f"decode tok/s {size}"] = run(size, tokens)
if arrival:
    figures["worst gap s"] = gap(arrival)
print("RESULT", json.dumps(figures))
"""


def main() -> None:
    made = parser(str(__doc__).splitlines()[0])
    made.add_argument("--model", required=True, help="a checkpoint directory that both load")
    made.add_argument("--sizes", default="1,4,8,16", help="batch sizes, with commas between them")
    made.add_argument("--prompt-tokens", type=int, default=128)
    made.add_argument("--tokens", type=int, default=64)
    made.add_argument("--arrival", type=int, default=4096)
    options = made.parse_args()
    told = (
        *(options.model, options.sizes),
        *(options.prompt_tokens, options.tokens, options.arrival),
    )
    compare(PROGRAM, told, options)


if __name__ == "__main__":
    main()
