import gc
import json
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlxlm_models.weights import assign, materialize, read_weights

LAYERS, SIZE = 12, 256


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Three shards of bfloat16 matrices, 1.5 MB in all."""
    weight_map = {}
    for shard in range(3):
        file = f"model-{shard}.safetensors"
        names = [f"layers.{layer}.weight" for layer in range(shard, LAYERS, 3)]
        arrays = {name: mx.random.normal((SIZE, SIZE)).astype(mx.bfloat16) for name in names}
        mx.save_safetensors(str(tmp_path / file), arrays)
        weight_map |= dict.fromkeys(names, file)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return tmp_path


def peak_of_loading(checkpoint: Path, cast: bool) -> tuple[int, int]:
    """Return the peak of loading and the bytes of the loaded model."""
    mx.synchronize()
    gc.collect()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    model = nn.Sequential(*[nn.Linear(SIZE, SIZE, bias=False) for _ in range(LAYERS)])
    assign(model, read_weights(checkpoint), "here")
    if cast:
        model.set_dtype(mx.float32)
    materialize(model)
    peak = mx.get_peak_memory() - before
    return peak, mx.get_active_memory() - before


def test_R45_peak_of_loading_is_the_model(checkpoint: Path) -> None:
    peak, size = peak_of_loading(checkpoint, cast=False)
    assert size >= LAYERS * SIZE * SIZE * 2
    assert peak <= size * 1.05


def test_R45_cast_while_loading_costs_one_layer(checkpoint: Path) -> None:
    layer = SIZE * SIZE * 4
    peak, size = peak_of_loading(checkpoint, cast=True)
    assert size >= LAYERS * layer
    assert peak <= size + layer * 1.05


def test_R45_stacked_experts_cost_one_layer(tmp_path: Path) -> None:
    """Experts stored one by one and stacked by the architecture's rules (mlx-lm#1438)."""
    experts, layer = 4, 4 * SIZE * SIZE * 4
    names = [f"layers.{i}.experts.{e}.weight" for i in range(LAYERS) for e in range(experts)]
    arrays = {name: mx.random.normal((SIZE, SIZE)) for name in names}
    mx.save_safetensors(str(tmp_path / "model.safetensors"), arrays)
    del arrays
    gc.collect()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    model = nn.Module()
    model.layers = [nn.Module() for _ in range(LAYERS)]
    for module in model.layers:
        module.weight = mx.zeros((experts, SIZE, SIZE))

    def stacked() -> dict[str, mx.array]:
        weights = read_weights(tmp_path)
        return {
            f"layers.{i}.weight": mx.stack(
                [weights[f"layers.{i}.experts.{e}.weight"] for e in range(experts)]
            )
            for i in range(LAYERS)
        }

    assign(model, stacked(), "here")
    materialize(model)
    size = mx.get_active_memory() - before
    assert size >= LAYERS * layer
    assert mx.get_peak_memory() - before <= size + layer * 1.05
