import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlxlm_models.adapters import apply_adapters
from mlxlm_models.errors import ConfigError, SourceError, WeightsError

CASES = ["lora", "lora_keys", "lora_quantized", "dora", "dora_quantized", "full"]
WEIGHTS = "adapters.safetensors"


def rewrite(directory: Path, **changes: mx.array | None) -> None:
    """Change tensors of the adapter; None removes one. Dots are written as `__`."""
    file = directory / WEIGHTS
    weights = dict(mx.load(str(file)))
    for key, value in changes.items():
        name = key.replace("__", ".")
        if value is None:
            del weights[name]
        else:
            weights[name] = value
    mx.eval(weights)
    mx.save_safetensors(str(file), weights)


def reconfigure(directory: Path, **changes: Any) -> None:
    file = directory / "adapter_config.json"
    config = json.loads(file.read_text())
    config["lora_parameters"] |= changes.pop("lora_parameters", {})
    file.write_text(json.dumps(config | changes))


@pytest.mark.parametrize("case", CASES)
def test_computes_what_mlx_lm_computes(case: str, adapted: Any) -> None:
    golden = adapted(case)
    before = golden.model(golden.tokens)
    apply_adapters(golden.model, golden.directory)
    golden.model.eval()
    after = golden.model(golden.tokens)
    assert mx.allclose(after, golden.logits, rtol=1e-4, atol=1e-4)
    assert not mx.allclose(before, golden.logits, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("case", CASES)
def test_adapted_model_has_exactly_the_trained_tensors(case: str, adapted: Any) -> None:
    golden = adapted(case)
    apply_adapters(golden.model, golden.directory)
    parameters = dict(tree_flatten(golden.model.parameters()))
    for name, array in mx.load(str(golden.directory / WEIGHTS)).items():
        assert mx.array_equal(parameters[name], array)


def test_absent_directory(adapted: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no adapter directory"):
        apply_adapters(adapted("lora").model, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("file", "error"), [(WEIGHTS, SourceError), ("adapter_config.json", ConfigError)]
)
def test_absent_file_is_named(file: str, error: type[Exception], adapted: Any) -> None:
    golden = adapted("lora")
    (golden.directory / file).unlink()
    with pytest.raises(error, match=file):
        apply_adapters(golden.model, golden.directory)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers__1__up__lora_a": mx.zeros((32, 3))}, "rank 3"),
        ({"layers__1__up__lora_b": mx.zeros((2, 63))}, r"layers.1.up.lora_b is \(2, 63\)"),
        ({"layers__1__up__lora_b": None}, "lacks 1 tensors: layers.1.up.lora_b"),
        ({"layers__1__up__lora_c": mx.zeros((2, 2))}, "none of lora's.*layers.1.up.lora_c"),
        ({"layers__1__left__lora_a": mx.zeros((32, 2))}, "lacks"),
        (
            {"layers__1__q__lora_a": mx.zeros((32, 2)), "layers__1__q__lora_b": mx.zeros((2, 32))},
            "adapts 1 layers that the model does not have: layers.1.q",
        ),
    ],
)
def test_unfit_tensors_are_named(change: Any, message: str, adapted: Any) -> None:
    golden = adapted("lora")
    rewrite(golden.directory, **change)
    before = golden.model(golden.tokens)
    with pytest.raises(WeightsError, match=message):
        apply_adapters(golden.model, golden.directory)
    assert mx.array_equal(golden.model(golden.tokens), before)


def test_unlisted_and_unused_keys_are_errors(adapted: Any) -> None:
    golden = adapted("lora")
    reconfigure(golden.directory, lora_parameters={"keys": ["up"]})
    with pytest.raises(WeightsError, match="adapts layers.1.down"):
        apply_adapters(golden.model, golden.directory)
    reconfigure(golden.directory, lora_parameters={"keys": ["up", "down", "sideways"]})
    with pytest.raises(WeightsError, match="no tensors for sideways"):
        apply_adapters(golden.model, golden.directory)


def test_lora_file_declared_dora_lacks_m(adapted: Any) -> None:
    golden = adapted("lora")
    reconfigure(golden.directory, fine_tune_type="dora")
    with pytest.raises(WeightsError, match="layers.1.down.m"):
        apply_adapters(golden.model, golden.directory)


def test_full_with_an_unknown_tensor(adapted: Any) -> None:
    golden = adapted("full")
    rewrite(golden.directory, layers__1__left__weight=mx.zeros((2, 2)))
    with pytest.raises(WeightsError, match="layers.1.left.weight"):
        apply_adapters(golden.model, golden.directory)


def test_truncated_weights(adapted: Any) -> None:
    golden = adapted("lora")
    file = golden.directory / WEIGHTS
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(WeightsError, match="truncated"):
        apply_adapters(golden.model, golden.directory)
