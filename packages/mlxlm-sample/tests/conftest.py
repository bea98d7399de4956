import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    """What mlx-lm 0.32.2 does; tools/goldens/sampling.py makes the file."""
    content: dict[str, Any] = json.loads(
        (Path(__file__).parent / "data" / "sampling.json").read_text()
    )
    return content


@pytest.fixture(scope="session")
def golden_logits(golden: dict[str, Any]) -> mx.array:
    return mx.array(np.array(golden["logits"], dtype=np.float32))


@pytest.fixture(scope="session")
def golden_logprobs(golden_logits: mx.array) -> mx.array:
    return golden_logits - mx.logsumexp(golden_logits, axis=-1, keepdims=True)


@pytest.fixture(scope="session")
def kept() -> Callable[[mx.array], list[list[int]]]:
    """Return, per row, the ids that a filter left."""

    def ids(filtered: mx.array) -> list[list[int]]:
        rows = np.array(filtered.astype(mx.float32))
        return [np.flatnonzero(np.isfinite(row)).tolist() for row in rows]

    return ids


@pytest.fixture(scope="session")
def logprobs_of() -> Callable[..., mx.array]:
    """Return log-probs (B, V) of rows of probabilities."""

    def make(*rows: list[float]) -> mx.array:
        with np.errstate(divide="ignore"):
            return mx.array(np.log(np.array(rows)).astype(np.float32))

    return make


@pytest.fixture(scope="session")
def same_draws(golden: dict[str, Any], golden_logprobs: mx.array) -> None:
    """Skip where this MLX draws other numbers from one seed than the recorded one did."""
    for name, logprobs in (
        ("categorical", golden_logprobs[:1]),
        ("categorical_batch", golden_logprobs),
    ):
        mx.random.seed(golden["seed"])
        drawn = [mx.random.categorical(logprobs).tolist() for _ in golden[name]]
        if drawn != golden[name]:
            pytest.skip(f"MLX {golden['mlx']} made the recording; this one draws differently")
