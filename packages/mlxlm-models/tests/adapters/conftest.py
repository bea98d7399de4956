"""The model of `tools/goldens/adapters.py`, and what mlx-lm made of it."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.utils import tree_unflatten

GOLDENS = Path(__file__).parent.parent / "goldens" / "adapters"


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(32, 64, bias=True)
        self.down = nn.Linear(64, 32, bias=False)

    def __call__(self, x: mx.array) -> mx.array:
        return x + self.down(nn.gelu(self.up(x)))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 32)
        self.layers = [Layer(), Layer()]

    def __call__(self, tokens: mx.array) -> mx.array:
        h = self.embed(tokens)
        for layer in self.layers:
            h = layer(h)
        return self.embed.as_linear(h)


@dataclass(frozen=True)
class Adapted:
    """A base model, a copy of an adapter for it, and the logits (1, 16, 16) of both."""

    model: nn.Module
    directory: Path
    logits: mx.array

    tokens = mx.arange(16)[None]


@pytest.fixture
def adapted(tmp_path: Path) -> Callable[[str], Adapted]:
    def make(case: str) -> Adapted:
        directory = tmp_path / case
        shutil.copytree(GOLDENS / case, directory)
        expected = mx.load(str(directory / "expected.safetensors"))
        base = [
            (name.removeprefix("base."), array)
            for name, array in expected.items()
            if name.startswith("base.")
        ]
        model = Model()
        if any(name.endswith(".scales") for name, _ in base):
            nn.quantize(model, group_size=32, bits=4)
        model.update(tree_unflatten(base))
        model.eval()
        return Adapted(model, directory, expected["logits"])

    return make
