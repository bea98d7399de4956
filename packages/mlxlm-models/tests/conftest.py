"""Fixtures shared by the tests of this package."""

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxlm_cache.device import preload_blas

preload_blas()

import mlx.core as mx  # noqa: E402
import mlx.nn as nn  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from mlx.utils import tree_flatten  # noqa: E402

GOLDENS = Path(__file__).parent / "goldens"


@dataclass(frozen=True)
class Golden:
    """Logits that transformers gives, or mlx-lm; see tools/goldens."""

    config: dict[str, Any]
    tokens: mx.array  # (1, L)
    chunks: list[int]
    shapes: dict[str, list[int]]
    seed: int
    arrays: dict[str, mx.array]
    bfloat16_error: float | None  # of the source's own logits in bfloat16, where known

    def logits(self, way: str) -> mx.array:
        """Return (L, vocabulary) for `way`: prefill, chunks or steps."""
        return self.arrays.get(way, self.arrays["prefill"])

    def weights(self) -> dict[str, mx.array]:
        """Return the checkpoint, under its public names."""
        return {name: self.weight(name, shape) for name, shape in self.shapes.items()}

    def weight(self, name: str, shape: list[int]) -> mx.array:
        """Make the tensor that the golden maker made."""
        rng = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
        noise = rng.standard_normal(shape)
        if len(shape) <= 1:
            value = 0.1 * noise + name.endswith((".weight", "_g"))
        elif "embed" in name:
            value = noise
        else:
            value = 2.0 * noise / shape[-1] ** 0.5
        return mx.array(np.asarray(value, np.float32))


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Make the weights of layers the same whichever tests ran before."""
    mx.random.seed(0)


@pytest.fixture
def golden() -> Callable[[str], Golden]:
    """Return the reader of a golden by its case's name."""

    def read(case: str) -> Golden:
        loaded: Any = mx.load(str(GOLDENS / f"{case}.safetensors"), return_metadata=True)
        arrays, metadata = loaded
        values = {key: json.loads(value) for key, value in metadata.items()}
        return Golden(
            values["config"],
            mx.array([values["tokens"]]),
            values["chunks"],
            values["weights"],
            values["seed"],
            arrays,
            values["bfloat16_error"],
        )

    return read


@pytest.fixture
def relative_error() -> Callable[[mx.array, mx.array], float]:
    """Return the largest difference over the largest reference value, in float32."""

    def measure(value: mx.array, reference: mx.array) -> float:
        value, reference = value.astype(mx.float32), reference.astype(mx.float32)
        error: Any = mx.abs(value - reference).max() / mx.abs(reference).max()
        return float(error.item())

    return measure


@pytest.fixture
def parameters() -> Callable[[nn.Module], dict[str, mx.array]]:
    """Return the reader of a module's parameters by their names."""

    def read(module: Any) -> dict[str, mx.array]:
        flat: Any = tree_flatten(module.parameters())
        return dict(flat)

    return read
