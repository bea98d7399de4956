"""The same weights in mlx-lm, in an environment of its own (`$MLXLM_PEER`), and here."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import load_prompt_cache
from mlxlm_generate import generate_step
from mlxlm_models import load_model

PEER = os.environ.get("MLXLM_PEER", "")
PROMPT = [5, 9, 2, 40, 11, 3, 3, 61]

RUN = """
import json, sys
import mlx.core as mx
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import make_prompt_cache, save_prompt_cache
from mlx_lm.utils import load_model
from pathlib import Path
folder, prompt = Path(sys.argv[1]), json.loads(sys.argv[2])
model, _ = load_model(folder)
cache = make_prompt_cache(model)
steps = generate_step(mx.array(prompt), model, max_tokens=48, prompt_cache=cache)
print(json.dumps([int(token) for token, _ in steps]))
save_prompt_cache(str(folder / "prompt.safetensors"), cache, {"by": "mlx-lm"})
"""


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def checkpoint(request: Any, tmp_path_factory: Any) -> Path:
    """Return a tiny random checkpoint."""
    width, inner, heads, kv_heads, head_dim, layers, vocab = 32, 64, 4, 2, 8, 3, 96
    config = {
        "model_type": request.param,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": 512,
        "vocab_size": vocab,
        "tie_word_embeddings": True,
    }
    shapes = {"model.embed_tokens": (vocab, width), "model.norm": (width,)}
    for layer in range(layers):
        parts = {
            "input_layernorm": (width,),
            "post_attention_layernorm": (width,),
            "self_attn.q_proj": (heads * head_dim, width),
            "self_attn.k_proj": (kv_heads * head_dim, width),
            "self_attn.v_proj": (kv_heads * head_dim, width),
            "self_attn.o_proj": (width, heads * head_dim),
            "mlp.gate_proj": (inner, width),
            "mlp.up_proj": (inner, width),
            "mlp.down_proj": (width, inner),
        }
        if request.param == "qwen3":
            parts |= {"self_attn.q_norm": (head_dim,), "self_attn.k_norm": (head_dim,)}
        shapes |= {f"model.layers.{layer}.{name}": shape for name, shape in parts.items()}
    mx.random.seed(1)
    weights = {f"{name}.weight": mx.random.normal(shape) for name, shape in shapes.items()}
    folder: Path = tmp_path_factory.mktemp(request.param)
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_greedy_tokens_and_prompt_files_agree(checkpoint: Path) -> None:
    assert PEER, "MLXLM_PEER names no Python that has mlx-lm: run `nox -s oracle`"
    command = [PEER, "-c", RUN, str(checkpoint), json.dumps(PROMPT)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    theirs = json.loads(done.stdout.splitlines()[-1])
    model, _ = load_model(checkpoint)
    ours = [token for token, _ in generate_step(PROMPT, model, max_tokens=48)]
    assert ours == theirs

    cache, metadata = load_prompt_cache(
        str(checkpoint / "prompt.safetensors"), return_metadata=True
    )
    assert metadata == {"by": "mlx-lm"}
    goes_on = generate_step([7], model, max_tokens=8, prompt_cache=cache)
    fresh = generate_step([*PROMPT, *ours, 7], model, max_tokens=8)
    assert [token for token, _ in goes_on] == [token for token, _ in fresh]
