"""What is asked: good requests of all sorts, and bad ones."""

import random
from dataclasses import dataclass
from typing import Any

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tell the weather of a place.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    },
}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["Ann", "Bob"]}, "old": {"type": "boolean"}},
    "required": ["name", "old"],
    "additionalProperties": False,
}
WORDS = "river stone lamp window garden bridge letter paper music story winter summer".split()  # noqa: SIM905


@dataclass(frozen=True)
class Case:
    """A request. `status` is what a bad one is answered; the answer to a good one is compared."""

    path: str
    body: dict[str, Any]
    status: int = 200

    @property
    def good(self) -> bool:
        return self.status == 200


BAD = (
    Case("/v1/completions", {"prompt": "a", "model": "../../etc/passwd"}, 404),
    Case("/v1/completions", {"prompt": ""}, 400),
    Case("/v1/completions", {"prompt": [1, 10**8]}, 400),
    Case("/v1/completions", {"prompt": "a", "temperature": "hot"}, 422),
    Case("/v1/completions", {"prompt": "a", "top_p": 7}, 400),
    Case("/v1/completions", {"prompt": "a", "logit_bias": {"x": 1}}, 400),
    Case("/v1/completions", {"prompt": "a", "n": 0}, 422),
    Case("/v1/completions", {"prompt": "a", "min_tokens": 9, "max_tokens": 3}, 400),
    Case("/v1/chat/completions", {"messages": []}, 422),
    Case("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "x"}]}]}, 400),
    Case("/v1/chat/completions", {"messages": "hello"}, 422),
    Case("/v1/nothing", {}, 404),
)


def good_case(draw: random.Random, structured: bool) -> Case:
    """Draw a request whose answer is the same whenever it is asked."""
    body: dict[str, Any] = {"max_tokens": draw.choice([1, 2, 5, 12, 30])}
    if draw.random() < 0.4:
        body |= {"seed": draw.randrange(1000), "temperature": draw.choice([0.7, 1.0, 1.5])}
    for name, value, share in (
        ("n", 2, 0.1),
        ("top_p", 0.9, 0.1),
        ("repetition_penalty", 1.2, 0.1),
        ("presence_penalty", 0.5, 0.1),
        ("min_tokens", 1, 0.1),
        ("ignore_eos", True, 0.3),
        ("stop", ["e", "zq"], 0.1),
        ("logit_bias", {"300": 4.0}, 0.1),
    ):
        if draw.random() < share:
            body[name] = value
    if body.get("n") == 2 and "seed" not in body:
        del body["n"]
    if draw.random() < 0.5:
        length = draw.choice([1, 3, 20, 100, 400])
        prompt: Any = _text(draw, length)
        if draw.random() < 0.3:
            prompt = [draw.randrange(100, 40_000) for _ in range(length)]
        if draw.random() < 0.2:
            body["logprobs"] = 2
        return Case("/v1/completions", {"prompt": prompt, **body})
    system = {
        "role": "system",
        "content": f"You are assistant {draw.randrange(3)}. " + "Be kind. " * 20,
    }
    turns = [{"role": "user", "content": _text(draw, draw.choice([2, 10, 60]))}]
    if draw.random() < 0.3:
        turns += [{"role": "assistant", "content": _text(draw, 8)}, turns[0]]
    if draw.random() < 0.2:
        body["tools"] = [TOOL]
    elif structured and draw.random() < 0.3:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "person", "schema": SCHEMA},
        }
        body["max_tokens"] = 40
        for name in ("stop", "logit_bias", "ignore_eos", "min_tokens", "n"):
            body.pop(name, None)
    return Case("/v1/chat/completions", {"messages": [system, *turns], **body})


def _text(draw: random.Random, words: int) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(words))
