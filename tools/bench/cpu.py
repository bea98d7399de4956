"""A Linux CPU as it comes: mlxlm out of the box beside mlx-lm out of the box.

    python tools/bench/cpu.py --ours .venv/bin/python --peer PEER/bin/python \
        --model CHECKPOINT [--model ANOTHER] [--rounds 3] [--prompt-tokens 512] [--tokens 32] \
        [--batch 8] [--llama LLAMA/bin/python --gguf FILE]

For each checkpoint, in the same run: tokens per second of prefill, of decode after that
prompt, and of all sequences of a batch together (higher is better); seconds from the start
of the process to its first token (lower is better); and decode's share of the roof, which
is the bandwidth of a large copy divided by the bytes of the model's weights, as this side
keeps them. `--llama` names a Python with llama-cpp-python, which runs `--gguf` beside.
See `beside` for how sides are run.
"""

from beside import Added, compare, parser

COMMON = r"""
import json, os, sys, time
from concurrent.futures import ThreadPoolExecutor
import numpy as np

def prompt(length, number=0):
    return [(7 * i + 13 * number) % 1000 + 100 for i in range(length)]

def bandwidth():
    # bytes read and written per second when every core copies
    cores = len(os.sched_getaffinity(0))
    source = np.ones((cores, 1 << 26), np.float32)
    target = np.zeros_like(source)
    times = []
    with ThreadPoolExecutor(cores) as pool:
        for _ in range(5):
            start = time.perf_counter()
            list(pool.map(np.copyto, target, source))
            times.append(time.perf_counter() - start)
    return 2 * source.nbytes / min(times)

def timed(stream, length, tokens):
    start, times = time.perf_counter(), []
    for _ in stream:
        times.append(time.perf_counter())
        if len(times) == tokens:
            break
    return length / (times[0] - start), (tokens - 1) / (times[-1] - times[0])

def report(first, prefill, decode, weights, **others):
    print("RESULT", json.dumps({
        "prefill tok/s": prefill, "decode tok/s": decode, **others,
        "start to first token s": first, "share of the roof": decode * weights / bandwidth(),
    }))
"""

PROGRAM = (
    COMMON
    + r"""
side, model, length, tokens, batch = sys.argv[1:]
length, tokens, batch = int(length), int(tokens), int(batch)
if side == "ours":
    from mlxlm_cache.device import preload_blas
    preload_blas()
    from mlxlm_generate import BatchGenerator, generate_step
    from mlxlm_models import load
else:
    from mlx_lm import load
    from mlx_lm.generate import BatchGenerator, generate_step
import mlx.core as mx
from mlx.utils import tree_flatten
model, _ = load(model)

def one(count):
    return generate_step(mx.array(prompt(length)), model, max_tokens=count)

next(iter(one(1)))
first = time.time() - float(os.environ["BENCH_START"])
prefill, decode = timed(one(tokens), length, tokens)

def batched():
    generator = BatchGenerator(model, max_tokens=tokens)
    uids = generator.insert([prompt(32, number) for number in range(batch)])
    waiting, made, start, end = set(uids), 0, None, None
    while responses := generator.next_generated():
        now = time.perf_counter()
        if waiting:
            waiting -= {response.uid for response in responses}
            start = now
        elif end is None:
            made += len(responses)
            if any(response.finish_reason for response in responses):
                end = now
    generator.close()
    return made / (end - start)

together = batched()
weights = sum(array.nbytes for _, array in tree_flatten(model.parameters()))
report(first, prefill, decode, weights, **{f"batch of {batch} tok/s": together})
"""
)

LLAMA = (
    COMMON
    + r"""
side, file, length, tokens = sys.argv[1:]
length, tokens = int(length), int(tokens)
from llama_cpp import Llama
cores = len(os.sched_getaffinity(0))
model = Llama(file, n_ctx=length + tokens + 8, n_batch=512, n_threads=cores,
              n_threads_batch=cores, logits_all=False, verbose=False)

def one():
    model.reset()
    model.eval(prompt(length))
    while True:
        token = model.sample(temp=0.0)
        yield token
        model.eval([token])

next(one())
first = time.time() - float(os.environ["BENCH_START"])
prefill, decode = timed(one(), length, tokens)
report(first, prefill, decode, os.path.getsize(file))
"""
)


def main() -> None:
    made = parser(str(__doc__).splitlines()[0], sides="ours,peer")
    made.add_argument("--model", action="append", required=True, help="a directory both load")
    made.add_argument("--prompt-tokens", type=int, default=512)
    made.add_argument("--tokens", type=int, default=32)
    made.add_argument("--batch", type=int, default=8)
    made.add_argument("--llama", help="Python with llama-cpp-python")
    made.add_argument("--gguf", help="what llama.cpp runs")
    options = made.parse_args()
    if bool(options.llama) != bool(options.gguf):
        made.error("--llama and --gguf go together")
    lengths = (options.prompt_tokens, options.tokens)
    added = {}
    if options.llama:
        added["llama.cpp"] = Added(options.llama, LLAMA, (options.gguf, *lengths))
    for model in options.model:
        print(model)
        compare(PROGRAM, (model, *lengths, options.batch), options, added)


if __name__ == "__main__":
    main()
