"""What a decode step costs beside the arithmetic, mlxlm beside mlx-lm, one request.

    python tools/bench/overhead.py --ours .venv/bin/python --peer PEER/bin/python \\
        [--rounds 5] [--tokens 500]

The model is a Llama of two layers, 32 wide, with random weights, each side's own
implementation: next to nothing is computed. For `generate_step` (single) and
`BatchGenerator` (batch) with one request, greedy, in microseconds a step (lower is
better): `python`, the CPU time of the Python thread outside of `mx.eval` and
`mx.async_eval`, which is building the graph and everything around it; `cpu`, all of that
thread's; `wall`, the time that passes. See `beside`
for how sides are run.
"""

from beside import compare, parser

PROGRAM = r"""
import sys, time, json
side, tokens = sys.argv[1], int(sys.argv[2])
config = dict(
    model_type="llama", hidden_size=32, intermediate_size=64, num_hidden_layers=2,
    num_attention_heads=2, num_key_value_heads=2, rms_norm_eps=1e-5, vocab_size=128,
    tie_word_embeddings=True, rope_theta=10000.0, max_position_embeddings=4096, head_dim=16,
)
if side == "ours":
    from mlxlm_cache.device import preload_blas
    preload_blas()
import mlx.core as mx

evaluating = 0.0
def timed(function):
    def call(*arrays):
        global evaluating
        start = time.thread_time()
        function(*arrays)
        evaluating += time.thread_time() - start
    return call
mx.eval, mx.async_eval = timed(mx.eval), timed(mx.async_eval)

if side == "ours":
    from mlxlm_generate import BatchGenerator, generate_step
    from mlxlm_models.registry import get_architecture
    mx.random.seed(0)
    model, _ = get_architecture("llama").create(config)
else:
    from mlx_lm.generate import BatchGenerator, generate_step
    from mlx_lm.models.llama import Model, ModelArgs
    mx.random.seed(0)
    model = Model(ModelArgs.from_dict(config))
model.eval()
mx.eval(model.parameters())
prompt = [1 + i for i in range(16)]

def single(count):
    for _ in generate_step(mx.array(prompt), model, max_tokens=count):
        yield

def batch(count):
    generator = BatchGenerator(model, max_tokens=count)
    generator.insert([prompt])
    while responses := generator.next_generated():
        yield
    generator.close()

def measure(steps):
    # The first steps are prefill and what is done once.
    for _ in range(5):
        next(steps)
    mx.synchronize()
    evaluated, cpu, start, count = evaluating, time.thread_time(), time.perf_counter(), 0
    for _ in steps:
        count += 1
    cpu, wall = time.thread_time() - cpu, time.perf_counter() - start
    python = cpu - (evaluating - evaluated)
    return [1e6 * t / count for t in (python, cpu, wall)]

figures = {}
for name, make in (("single", single), ("batch", batch)):
    for _ in make(30):
        pass
    # The best of several: what else runs on the machine only adds.
    runs = [measure(make(tokens)) for _ in range(5)]
    for what, values in zip(("python", "cpu", "wall"), zip(*runs)):
        figures[f"{name} {what} us"] = min(values)
print("RESULT", json.dumps(figures))
"""


def main() -> None:
    made = parser(str(__doc__).splitlines()[0])
    made.add_argument("--tokens", type=int, default=500)
    options = made.parse_args()
    compare(PROGRAM, (options.tokens,), options)


if __name__ == "__main__":
    main()
