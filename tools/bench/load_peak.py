"""Peak memory while a checkpoint is loaded, of mlxlm and, where it is given, of mlx-lm.

    python tools/bench/load_peak.py [--gigabytes 2] [--peer PEER/bin/python]

The checkpoint is random: float32 shards of about 500 MB of a Mixtral whose experts are
stored one by one, and have to be stacked. Figures, as multiples of its size, each in a
process of its own: `mlx`, the peak of what MLX had allocated; `process`, the growth of
the process's memory.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

CHILD = r"""
import sys, json, resource
from pathlib import Path
side, path = sys.argv[1:]
def resident():
    if sys.platform == "linux":  # whose ru_maxrss counts what the parent had
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
import mlx.core as mx
import mlx.nn
mx.eval(mx.zeros((8, 8)) @ mx.zeros((8, 8)))
if side == "ours":
    from mlxlm_models import load_model
    from mlxlm_models.registry import get_architecture
    get_architecture("mixtral")
    load = lambda: load_model(path)
else:
    from mlx_lm.utils import load_model
    load = lambda: load_model(Path(path))
before = resident()
model, *_ = load()
from mlx.utils import tree_flatten
held = sum(array.nbytes for _, array in tree_flatten(model.parameters()))
print(json.dumps({"mlx": mx.get_peak_memory(), "process": resident() - before, "model": held}))
"""
HIDDEN, INNER, EXPERTS = 1024, 2048, 8
SHARD = 500_000_000


def write_checkpoint(folder: Path, gigabytes: float) -> int:
    """Write the checkpoint; return the bytes of its tensors."""
    import mlx.core as mx

    layer_bytes = 4 * (3 * EXPERTS * INNER * HIDDEN + 4 * HIDDEN * HIDDEN)
    layers = max(1, round(gigabytes * 1e9 / layer_bytes))
    config = {
        "model_type": "mixtral",
        "vocab_size": 1024,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": layers,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "num_local_experts": EXPERTS,
        "num_experts_per_tok": 2,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1e6,
    }
    (folder / "config.json").write_text(json.dumps(config))
    weight_map: dict[str, str] = {}
    shard: dict[str, Any] = {}
    total = 0

    def flush() -> None:
        nonlocal shard
        name = f"model-{len(set(weight_map.values())):05}.safetensors"
        mx.save_safetensors(str(folder / name), shard, {"format": "pt"})
        weight_map.update(dict.fromkeys(shard, name))
        shard = {}

    def add(name: str, *shape: int) -> None:
        nonlocal total
        shard[name] = 0.02 * mx.random.normal(shape)
        total += shard[name].nbytes
        if sum(array.nbytes for array in shard.values()) > SHARD:
            flush()

    add("model.embed_tokens.weight", 1024, HIDDEN)
    for layer in range(layers):
        path = f"model.layers.{layer}"
        for part in "qkvo":
            add(f"{path}.self_attn.{part}_proj.weight", HIDDEN, HIDDEN)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            add(f"{path}.{norm}.weight", HIDDEN)
        add(f"{path}.block_sparse_moe.gate.weight", EXPERTS, HIDDEN)
        for expert in range(EXPERTS):
            inside = f"{path}.block_sparse_moe.experts.{expert}"
            add(f"{inside}.w1.weight", INNER, HIDDEN)
            add(f"{inside}.w3.weight", INNER, HIDDEN)
            add(f"{inside}.w2.weight", HIDDEN, INNER)
    add("model.norm.weight", HIDDEN)
    add("lm_head.weight", 1024, HIDDEN)
    flush()
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return total


def measure(python: str, side: str, folder: Path) -> dict[str, int]:
    done = subprocess.run(
        [python, "-c", CHILD, side, str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{side} failed:\n{done.stderr}")
    figures: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--ours", default=sys.executable, help="Python with mlxlm")
    parser.add_argument("--peer", help="Python with mlx-lm")
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        size = write_checkpoint(folder, options.gigabytes)
        print(f"checkpoint: {size / 1e9:.2f} GB")
        sides = {"ours": options.ours} | ({"peer": options.peer} if options.peer else {})
        for side, python in sides.items():
            figures = measure(python, side, folder)
            print(f"{side}: " + ", ".join(f"{k} {v / size:.3f}" for k, v in figures.items()))


if __name__ == "__main__":
    main()
