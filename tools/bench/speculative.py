"""Speculation beside plain decoding, on the same weights in the same process.

    python tools/bench/speculative.py --model CHECKPOINT [--draft CHECKPOINT] \
        [--rounds 5] [--tokens 96] [--sizes 1,4]

Two prompts: `edit` asks for a text again with a change, `free` for a story. Size 1 is
`generate_step`, others are that many requests in a `BatchGenerator`. In each round plain
decoding, n-grams and (with `--draft`) a draft model of the same tokenizer take turns, in
another order than the round before. Reports seconds from the first token on, medians, and
plain divided by speculative: above 1 is a gain. Says where tokens differ, as at a tie.
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from mlxlm_cache.device import preload_blas

preload_blas()

from mlxlm_generate import BatchGenerator, ModelDrafter, NGramDrafter, generate_step  # noqa: E402
from mlxlm_models import load  # noqa: E402

TEXT = (
    "The old lighthouse stands on the northern cliff. Every evening the keeper climbs its "
    "stairs and lights the lamp. Ships far out at sea can see the light. In winter the wind "
    "is so strong that the keeper ties himself to the rail. He has done so for thirty years."
)
PROMPTS = {
    "edit": f"Repeat this text, with the word keeper replaced by guard:\n\n{TEXT}",
    "free": "Tell me a story about a journey to the mountains.",
}
Run = tuple[float, list[list[int]]]


def single(model: Any, prompt: list[int], tokens: int, drafter: Any) -> Run:
    """Return seconds from the first token on, and the tokens."""
    steps = generate_step(prompt, model, max_tokens=tokens, drafter=drafter and drafter())
    answer = [next(steps)[0]]
    start = perf_counter()
    answer += [token for token, _ in steps]
    return perf_counter() - start, [answer]


def batch(model: Any, prompts: list[list[int]], tokens: int, drafter: Any) -> Run:
    with BatchGenerator(model, drafter=drafter, return_prompt_caches=False) as generator:
        uids = generator.insert(prompts, tokens)
        answers: dict[int, list[int]] = {uid: [] for uid in uids}
        start, before = 0.0, True
        while responses := generator.next_generated():
            for response in responses:
                assert response.token is not None
                answers[response.uid].append(response.token)
            if before and all(answers.values()):
                start, before = perf_counter(), False
        return perf_counter() - start, list(answers.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--draft", help="a checkpoint of the same tokenizer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--sizes", default="1,4")
    options = parser.parse_args()
    model, tokenizer = load(options.model)
    guessers: dict[str, Callable[[], Any] | None] = {"plain": None, "ngrams": NGramDrafter}
    if options.draft:
        draft, _ = load(options.draft)
        guessers["draft"] = lambda: ModelDrafter(draft)
    print(
        f"{'seconds, median of ' + str(options.rounds):<28}" + "".join(f"{g:>9}" for g in guessers)
    )
    for name, text in PROMPTS.items():
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=True
        )
        prompt = [int(token) for token in ids]
        for size in map(int, options.sizes.split(",")):
            took: dict[str, list[float]] = {guesser: [] for guesser in guessers}
            said: dict[str, list[list[int]]] = {}
            for number in range(options.rounds + 1):
                for guesser in guessers if number % 2 else reversed(guessers):
                    how = guessers[guesser]
                    if size == 1:
                        seconds, answers = single(model, prompt, options.tokens, how)
                    else:
                        seconds, answers = batch(model, [prompt] * size, options.tokens, how)
                    said[guesser] = answers
                    if number:  # the first round warms up
                        took[guesser].append(seconds)
            medians = {guesser: statistics.median(times) for guesser, times in took.items()}
            print(
                f"{name + ', ' + str(size):<28}" + "".join(f"{m:>9.3f}" for m in medians.values())
            )
            ratios = "".join(f"{medians['plain'] / m:>9.2f}" for m in medians.values())
            print(f"{'  gain':<28}{ratios}", flush=True)
            for guesser, answers in said.items():
                if answers != said["plain"]:
                    print(f"{name}, {size}: {guesser} differs from plain", file=sys.stderr)


if __name__ == "__main__":
    main()
