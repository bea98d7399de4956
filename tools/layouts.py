"""Compare both layouts of a checkpoint, public and converted, in mlxlm and in mlx-lm.

    python tools/layouts.py --peer PEER/bin/python [case …]

For each golden whose type mlx-lm has too: the same random checkpoint in the public layout, and,
quantized, in the one that mlx-lm converts it to. Either is loaded by both sides, which then go
on greedily from the golden's tokens. A line says whether the tokens are equal, and how far the
logits of each side are from the golden's, relative to the largest: where they differ, that
tells who is right. The exit status is 1 where tokens differ.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

GOLDENS = Path(__file__).parents[1] / "packages/mlxlm-models/tests/goldens"
NEW_TOKENS = 12
GROUP, BITS = 32, 8

PUBLISHED: dict[str, dict[str, Any]] = {
    "glm_moe_dsa": {"topk_method": "noaux_tc"},
    "gpt_bigcode": {"attention_bias": True, "mlp_bias": True},
    "solar_open": {"partial_rotary_factor": 1.0},
    "qwen2_moe": {"decoder_sparse_step": 1},
    "apertus": {"post_norm": False, "qk_norm": True},
    "gpt2": {"n_ctx": 64},
    "longcat_flash": {"attention_method": "MLA"},
    "mimo_v2_flash": {
        "hybrid_layer_pattern": [0, 1, 0],
        "moe_layer_freq": [0, 1, 1],
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
        "sliding_window_size": 7,
        "topk_method": "noaux_tc",
        "layernorm_epsilon": 1e-5,
        "n_shared_experts": None,
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 2,
        "swa_head_dim": 8,
        "swa_v_head_dim": 6,
        "rope_theta": 100.0,
        "swa_rope_theta": 50.0,
    },
    "minimax_m2": {"shared_intermediate_size": 0},
    "exaone_moe": {"is_moe_layer": [False, True, True, True]},
}
"""What published configs of a type have, and mlx-lm wants, that is nothing to us."""

PROGRAM = r"""
import json, sys, traceback
from pathlib import Path
side, steps, group, bits = sys.argv[1], *map(int, sys.argv[2:5])
if side == "ours":
    from mlxlm_cache.device import preload_blas
    preload_blas()
import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten
if side == "ours":
    from mlxlm_models import load_model
    make_cache = lambda model: model.make_cache()
else:
    from mlx_lm.utils import load_model
    from mlx_lm.models.cache import make_prompt_cache as make_cache

def run(folder, tokens):
    model = load_model(folder)[0].eval()
    cache = make_cache(model)
    logits = model(mx.array([tokens]), cache=cache)[0].astype(mx.float32)
    found = [int(logits[-1].argmax())]
    while len(found) < steps:
        found.append(int(model(mx.array([found[-1:]]), cache=cache)[0, -1].argmax()))
    return model, {"tokens": found, "logits": np.array(logits).tolist()}

def quantize(model, config, folder):
    # Of a type's own recipe, what it leaves alone; what no group divides stays too.
    recipe = getattr(model, "quant_predicate", None)
    def fits(path, layer):
        able = hasattr(layer, "to_quantized") and layer.weight.shape[-1] % group == 0
        return able and (recipe is None or recipe(path, layer) is not False)
    nn.quantize(model, group, bits, class_predicate=fits)
    folder.mkdir()
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())))
    settings = {"group_size": group, "bits": bits, "mode": "affine"}
    (folder / "config.json").write_text(json.dumps(config | {"quantization": settings}))

for line in sys.stdin:
    folder, results = Path(line.strip()), {}
    config = json.loads((folder / "public/config.json").read_text())
    tokens = json.loads((folder / "tokens.json").read_text())
    for layout in ("public", "converted"):
        try:
            if side == "ours" and not (folder / layout).exists():
                continue
            model, results[layout] = run(folder / layout, tokens)
            if side == "peer" and layout == "public":
                quantize(model, config, folder / "converted")
        except Exception as error:
            results[layout] = {"error": f"{type(error).__name__}: {error}"[:300]}
            if layout == "public":
                break
    (folder / f"{side}.json").write_text(json.dumps(results))
"""


def complete(config: dict[str, Any]) -> dict[str, Any]:
    """Return a config with the keys that it leaves out, as published ones have them all.

    What they mean comes from our reading of the config, which the golden proves.
    """
    from mlxlm_models.registry import get_architecture

    read = get_architecture(config["model_type"]).create(config)[1]
    if hasattr(read, "text") and "text_config" in config:
        inner = {"model_type": read.text.model_type, **config["text_config"]}
        return {**config, "text_config": {**_keys(read.text, inner), **inner}}
    published = PUBLISHED.get(config["model_type"], {})
    return {**_keys(getattr(read, "text", read), config), **published, **config}


def _keys(read: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Return what a config was read as, under every public spelling of its keys."""
    values = {f.name: getattr(read, f.name) for f in fields(read)}
    spelled = {alias: values.get(name) for alias, name in read.aliases.items()}
    rope = config.get("rope_parameters") or {}
    older = {}
    if rope and not any(isinstance(value, dict) for value in rope.values()):
        kind = rope.get("rope_type", "default")
        older = {"rope_theta": rope.get("rope_theta", values.get("rope_theta"))}
        if kind != "default" and not config.get("rope_scaling"):
            older["rope_scaling"] = {**rope, "type": kind}
    said = {key: v for key, v in {**spelled, **values, **older}.items() if v is not None}
    said.pop("model_type")
    usual = {"rope_scaling": None, "head_dim": read.head_size}
    usual |= {"num_key_value_heads": read.kv_heads, "mlp_only_layers": []}
    usual |= {"rms_norm_eps": read.rms_norm_eps, "layer_norm_eps": read.rms_norm_eps}
    return usual | said


def write_public(case: str, folder: Path) -> None:
    """Write the checkpoint of a golden, its weights made anew, and the tokens to go on from."""
    import numpy as np
    from safetensors import safe_open
    from safetensors.numpy import save_file

    sys.path.insert(0, str(Path(__file__).parent / "goldens"))
    from cases import CASES
    from golden_files import weight

    with safe_open(GOLDENS / f"{case}.safetensors", "np") as file:
        data = {key: json.loads(value) for key, value in file.metadata().items()}
        logits = np.asarray(file.get_tensor("prefill"))
    public = folder / "public"
    public.mkdir(parents=True)
    tensors = {}
    for name, shape in data["weights"].items():
        there = name
        for old, new in CASES[case].peer_names.items():
            there = there.replace(old, new)
        tensors[there] = weight(name, tuple(shape))
    save_file(tensors, public / "model.safetensors", {"format": "pt"})
    config = complete(data["config"]) | (CASES[case].peer or {})
    (public / "config.json").write_text(json.dumps(config))
    (folder / "tokens.json").write_text(json.dumps(data["tokens"]))
    (folder / "golden.json").write_text(json.dumps(logits.tolist()))


def run(python: str, side: str, folders: list[Path]) -> None:
    """Run one side over all folders; a folder that ends the process has no result."""
    left = list(folders)
    while left:
        arguments = [python, "-c", PROGRAM, side, *map(str, (NEW_TOKENS, GROUP, BITS))]
        text = "".join(f"{folder}\n" for folder in left)
        done = subprocess.run(arguments, input=text, text=True, capture_output=True, check=False)
        reached = [i for i, folder in enumerate(left) if (folder / f"{side}.json").exists()]
        if done.returncode == 0:
            return
        if not reached and "Error" in done.stderr:
            sys.exit(f"{side}: {done.stderr[-2000:]}")
        at = max(reached, default=-1) + 1
        message = f"the process ended with {done.returncode}"
        (left[at] / f"{side}.json").write_text(json.dumps({"public": {"error": message}}))
        left = left[at + 1 :]


def difference(logits: Any, golden: Any) -> float:
    import numpy as np

    a, b = np.asarray(logits), np.asarray(golden)
    return float(np.abs(a - b).max() / np.abs(b).max())


def report(case: str, folder: Path) -> bool:
    """Print a case's line; return whether both sides go on alike, where both can."""
    golden = json.loads((folder / "golden.json").read_text())
    sides = {name: json.loads((folder / f"{name}.json").read_text()) for name in ("ours", "peer")}
    words, alike = [], True
    for layout in ("public", "converted"):
        found = {name: results.get(layout, {"error": "-"}) for name, results in sides.items()}
        errors = {name: value["error"] for name, value in found.items() if "error" in value}
        if errors:
            words.append(f"{layout}: " + "; ".join(f"{n}: {e}" for n, e in errors.items()))
            alike = alike and "ours" not in errors
            continue
        equal = found["ours"]["tokens"] == found["peer"]["tokens"]
        off = [f"{n} {difference(v['logits'], golden):.0e}" for n, v in found.items()]
        words.append(f"{layout}: {'equal' if equal else 'DIFFERENT'} ({', '.join(off)})")
        alike = alike and equal
    print(f"{case}: {' | '.join(words)}", flush=True)
    return alike


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--peer", required=True, help="the Python of an environment with mlx-lm")
    parser.add_argument("cases", nargs="*", help="goldens by name; all unless given")
    arguments = parser.parse_args()
    cases = arguments.cases or sorted(path.stem for path in GOLDENS.glob("*.safetensors"))
    if unknown := [case for case in cases if not (GOLDENS / f"{case}.safetensors").exists()]:
        parser.error(f"no golden is called {', '.join(unknown)}")
    with TemporaryDirectory() as name:
        folders = {case: Path(name) / case for case in cases}
        for case, folder in folders.items():
            write_public(case, folder)
        run(arguments.peer, "peer", list(folders.values()))
        run(sys.executable, "ours", list(folders.values()))
        alike = [report(case, folder) for case, folder in folders.items()]
    print(f"{sum(alike)} of {len(alike)} alike")
    sys.exit(not all(alike))


if __name__ == "__main__":
    main()
