"""Make the adapter goldens: files that mlx-lm 0.32.2 writes, and what they compute.

Run in an environment that has mlx-lm, from the root of the workspace:
`python tools/goldens/adapters.py`. The committed files are read by
`packages/mlxlm-models/tests/adapters`.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_map
from mlx_lm.tuner.utils import linear_to_lora_layers

OUT = Path("packages/mlxlm-models/tests/goldens/adapters")
VOCABULARY, HIDDEN, INNER, RANK, GROUP = 16, 32, 64, 2, 32


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(HIDDEN, INNER, bias=True)
        self.down = nn.Linear(INNER, HIDDEN, bias=False)

    def __call__(self, x: mx.array) -> mx.array:
        return x + self.down(nn.gelu(self.up(x)))


class Model(nn.Module):
    """The least that the tuner takes: `layers`, and names to adapt."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = [Layer(), Layer()]

    def __call__(self, tokens: mx.array) -> mx.array:
        h = self.embed(tokens)
        for layer in self.layers:
            h = layer(h)
        return self.embed.as_linear(h)


CASES: dict[str, tuple[str, bool, list[str] | None]] = {
    "lora": ("lora", False, None),
    "lora_keys": ("lora", False, ["down", "embed"]),
    "lora_quantized": ("lora", True, ["up", "down", "embed"]),
    "dora": ("dora", False, ["up", "down", "embed"]),
    "dora_quantized": ("dora", True, None),
    "full": ("full", False, None),
}


def make(case: str) -> None:
    kind, quantized, keys = CASES[case]
    mx.random.seed(sorted(CASES).index(case))
    model = Model()
    if quantized:
        nn.quantize(model, group_size=GROUP, bits=4)
    base = dict(tree_flatten(model.parameters()))
    model.freeze()
    parameters: dict[str, Any] = {"rank": RANK, "scale": 3.0, "dropout": 0.0}
    if keys:
        parameters["keys"] = keys
    if kind == "full":
        model.layers[-1].unfreeze()
    else:
        linear_to_lora_layers(model, 1, parameters, use_dora=kind == "dora")
    noise = tree_map(lambda a: a + 0.2 * mx.random.normal(a.shape), model.trainable_parameters())
    model.update(noise)
    model.eval()
    tokens = mx.arange(VOCABULARY)[None]
    directory = OUT / case
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    settings = {"fine_tune_type": kind, "num_layers": 1, "lora_parameters": parameters}
    (directory / "adapter_config.json").write_text(json.dumps(settings, indent=4) + "\n")
    trained = dict(tree_flatten(model.trainable_parameters()))
    mx.save_safetensors(str(directory / "adapters.safetensors"), trained)
    expected = {f"base.{name}": array for name, array in base.items()}
    expected["logits"] = model(tokens)
    mx.save_safetensors(str(directory / "expected.safetensors"), expected)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    for name in CASES:
        make(name)
