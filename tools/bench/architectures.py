"""Prefill and decode of several shapes of model, mlxlm beside mlx-lm, on the same weights.

    python tools/bench/architectures.py --peer PEER/bin/python \\
        [--shapes llama-1B,qwen3-0.6B,moe,mla] [--rounds 5] [--layers 4]

Shapes are those of published models with fewer layers and a smaller vocabulary, in float32,
with random weights: one file that both sides read, each through its own `sanitize`. Figures
are tokens per second of `generate_step` (higher is better), for a prompt of 256 tokens and
for 48 tokens after it, the best of three in each process. See `beside` for how sides are run.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from beside import compare, parser

PROGRAM = r"""
import sys, time, json
side, folder, prompt_tokens, tokens = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
from pathlib import Path
if side == "ours":
    from mlxlm_cache.device import preload_blas
    preload_blas()
import mlx.core as mx
if side == "ours":
    from mlxlm_generate import generate_step
    from mlxlm_models import load_model
    model, _ = load_model(folder)
else:
    from mlx_lm.generate import generate_step
    from mlx_lm.utils import load_model
    model, _ = load_model(Path(folder))
prompt = mx.array([(7 * i) % 1000 for i in range(prompt_tokens)])

def run():
    start, times = time.perf_counter(), []
    for _ in generate_step(prompt, model, max_tokens=tokens):
        times.append(time.perf_counter())
    return prompt_tokens / (times[0] - start), (len(times) - 1) / (times[-1] - times[0])

run()
prefills, decodes = zip(*[run() for _ in range(3)])
print("RESULT", json.dumps({"prefill tok/s": max(prefills), "decode tok/s": max(decodes)}))
"""


def sizes(hidden: int, inner: int, heads: int, kv_heads: int) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": 16384,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
    }


SHAPES: dict[str, dict[str, Any]] = {
    "llama-1B": sizes(2048, 8192, 32, 8) | {"model_type": "llama", "head_dim": 64},
    "qwen3-0.6B": sizes(1024, 3072, 16, 8) | {"model_type": "qwen3", "head_dim": 128},
    "moe": sizes(1024, 2048, 16, 4)
    | {
        "model_type": "qwen3_moe",
        "head_dim": 64,
        "num_experts": 32,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 512,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "norm_topk_prob": True,
    },
    "mla": sizes(1024, 2816, 16, 16)
    | {
        "model_type": "deepseek_v2",
        "kv_lora_rank": 512,
        "q_lora_rank": None,
        "qk_nope_head_dim": 64,
        "qk_rope_head_dim": 32,
        "v_head_dim": 64,
        "moe_intermediate_size": 512,
        "n_routed_experts": 16,
        "n_shared_experts": 1,
        "num_experts_per_tok": 4,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "norm_topk_prob": False,
        "scoring_func": "softmax",
        "topk_method": "greedy",
        "rope_scaling": {
            "type": "yarn",
            "factor": 40,
            "original_max_position_embeddings": 4096,
            "beta_fast": 32,
            "beta_slow": 1,
            "mscale": 0.707,
            "mscale_all_dim": 0.707,
        },
        "tie_word_embeddings": False,
    },
}


def write_checkpoint(folder: Path, config: dict[str, Any]) -> None:
    """Write random weights under the names of converted checkpoints, which both sides have.

    Latent attention's are those of the public ones: for mlx-lm they differ by type.
    """
    import mlx.core as mx
    from mlx.utils import tree_flatten
    from mlxlm_models.registry import get_architecture

    mx.random.seed(0)
    model, _ = get_architecture(config["model_type"]).create(config)
    weights: Any = dict(tree_flatten(model.parameters()))
    for name in [name for name in weights if name.endswith(".embed_q.weight")]:
        path = name.removesuffix(".embed_q.weight")
        keys, values = weights.pop(name), weights.pop(f"{path}.unembed_out.weight")
        heads = mx.concatenate([keys.swapaxes(-1, -2), values], axis=1)
        weights[f"{path}.kv_b_proj.weight"] = heads.flatten(0, 1)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config))


def main() -> None:
    made = parser(str(__doc__).splitlines()[0])
    made.add_argument("--shapes", default=",".join(SHAPES), help=f"some of {','.join(SHAPES)}")
    made.add_argument("--layers", type=int, default=4)
    made.add_argument("--prompt-tokens", type=int, default=256)
    made.add_argument("--tokens", type=int, default=48)
    options = made.parse_args()
    for shape in options.shapes.split(","):
        print(f"{shape}, {options.layers} layers", flush=True)
        with TemporaryDirectory() as name:
            write_checkpoint(Path(name), SHAPES[shape] | {"num_hidden_layers": options.layers})
            compare(PROGRAM, (name, options.prompt_tokens, options.tokens), options)


if __name__ == "__main__":
    main()
