"""Guesses ahead, in the steps of all requests."""

import asyncio
from typing import Any

import pytest
from mlxlm_server import ApiError, ServerSettings
from mlxlm_server.pool import Pool

BODY = {"prompt": "one two three one two three one two three", "max_tokens": 24}


@pytest.mark.parametrize(
    "guesser", [{"draft_model": "smaller"}, {"ngram_draft": True, "num_draft_tokens": 4}]
)
def test_R27_guesses_change_no_greedy_answer(serve_tiny: Any, guesser: dict[str, Any]) -> None:
    plain, guessing = serve_tiny(), serve_tiny(**guesser)
    for body in (BODY, {**BODY, "n": 3}, {**BODY, "prompt": [BODY["prompt"], "four five"]}):
        plainly, guessed = (
            live.http.post("/v1/completions", json=body).json()["choices"]
            for live in (plain, guessing)
        )
        assert plainly == guessed


class Other:
    """A tokenizer of another vocabulary."""

    eos_token_ids = frozenset({0})

    def get_vocab(self) -> dict[str, int]:
        return {"a": 0, "b": 1}

    def encode(self, text: str, **options: Any) -> list[int]:
        return [0]


def test_R24_a_draft_of_another_vocabulary_is_refused_when_it_is_loaded(tiny: Any) -> None:
    settings = ServerSettings(models=("tiny",), draft_model="draft")

    def load(name: str, adapter: str | None) -> Any:
        return (tiny[0], Other()) if name == "draft" else tiny

    with pytest.raises(ApiError, match="can't be loaded") as caught:
        asyncio.run(Pool(settings, load).get(None))
    assert "tokenizer does not match" in str(caught.value.__cause__)
