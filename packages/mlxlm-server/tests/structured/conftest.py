"""A tiny model with random weights, whose tokens are SmolLM2's: what it says has no sense."""

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_generate import BatchGenerator, Request
from mlxlm_models.registry import get_architecture
from mlxlm_server import Grammars

CONFIG = {
    "model_type": "llama",
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}


@pytest.fixture(scope="session")
def tokenizer(loaded: tuple[Any, Any]) -> Any:
    return loaded[1]


@pytest.fixture(scope="session")
def grammars(tokenizer: Any) -> Grammars:
    return Grammars(tokenizer)


@pytest.fixture(scope="session")
def tiny(tokenizer: Any) -> Any:
    mx.random.seed(3)
    model, _ = get_architecture("llama").create({**CONFIG, "vocab_size": len(tokenizer)})
    mx.eval(model.parameters())
    return model


Answers = list[tuple[str, str | None]]


@pytest.fixture(scope="session")
def answers(tiny: Any, tokenizer: Any) -> Callable[..., Answers]:
    """Return each request's text, and why it ended."""

    def run(requests: Sequence[Request], **settings: Any) -> Answers:
        stops = [[token] for token in tokenizer.eos_token_ids]
        with BatchGenerator(tiny, stop_tokens=stops, **settings) as engine:
            uids = engine.submit(requests)
            tokens: dict[int, list[int]] = {uid: [] for uid in uids}
            reasons: dict[int, str | None] = {}
            while not engine.idle:
                for response in engine.next_generated():
                    if response.error is not None:
                        raise response.error
                    reasons[response.uid] = response.finish_reason
                    if response.token is not None and response.finish_reason != "stop":
                        tokens[response.uid].append(response.token)
        return [(tokenizer.decode(tokens[uid]), reasons[uid]) for uid in uids]

    return run
