"""Write the golden logits of `packages/mlxlm-models/tests/goldens` from transformers.

Run in an environment of its own: pip install torch transformers safetensors, then
python tools/goldens/transformers_logits.py [case …]

A golden is one safetensors file: the logits of a full prefill and, only where transformers
itself gives others, of a prefill in chunks and of single steps with a cache. Its metadata
hold the config, the tokens, the chunk sizes, and the names and shapes of the weights, which
`weight()` makes anew from the seed. Everything is float32.
"""

import json
import sys
import zlib
from pathlib import Path

import numpy as np
import torch
import transformers
from cases import CASES, Case
from safetensors.numpy import save_file

HERE = Path(__file__).resolve().parents[2] / "packages/mlxlm-models/tests/goldens"
SEED = 20240607
LENGTH = 24
CHUNKS = [10, 9, 5]


def weight(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return the tensor `name`; tests/conftest.py makes the same."""
    noise = np.random.default_rng([SEED, zlib.crc32(name.encode())]).standard_normal(shape)
    if len(shape) == 1:
        value = 0.1 * noise + name.endswith("norm.weight")
    elif "embed" in name:
        value = noise
    else:
        value = 2.0 * noise / shape[-1] ** 0.5
    return value.astype(np.float32)


def build(config: dict) -> torch.nn.Module:
    settings = transformers.AutoConfig.for_model(**config)
    auto = transformers.AutoModelForCausalLM
    if "text_config" in config:
        auto = transformers.AutoModelForImageTextToText
    model = auto.from_config(settings, attn_implementation="eager").float().eval()
    state = {
        name: torch.from_numpy(weight(name, tuple(value.shape)))
        for name, value in weights_of(model).items()
    }
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected, unexpected
    model.tie_weights()
    return model


def weights_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return what a public checkpoint of `model` holds: tied copies only once."""
    tied = set(model.all_tied_weights_keys)
    return {name: value for name, value in model.state_dict().items() if name not in tied}


@torch.no_grad()
def logits(model: torch.nn.Module, tokens: list[int], sizes: list[int]) -> np.ndarray:
    cache = transformers.DynamicCache(config=model.config)
    parts, start = [], 0
    for size in sizes:
        ids = torch.tensor([tokens[start : start + size]])
        parts.append(model(input_ids=ids, cache=cache, use_cache=True).logits[0].numpy())
        start += size
    return np.concatenate(parts)


def difference(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


def write(name: str, case: Case) -> None:
    config = case.config
    text = config.get("text_config", config)
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode())])
    tokens = rng.integers(1, text["vocab_size"], LENGTH).tolist()
    model = build(config)
    prefill = logits(model, tokens, [LENGTH])
    arrays = {"prefill": prefill}
    for way, sizes in (("chunks", CHUNKS), ("steps", [1] * LENGTH)):
        other = logits(model, tokens, sizes)
        if difference(other, prefill) > 1e-5:
            arrays[way] = other
    for without in case.without:
        changed = logits(build(config | without), tokens, [LENGTH])
        effect = difference(changed, prefill)
        assert effect > 1e-2, f"{name}: {without} changes the logits by {effect} only"
    metadata = {
        "config": config,
        "tokens": tokens,
        "chunks": CHUNKS,
        "weights": {key: list(value.shape) for key, value in weights_of(model).items()},
        "seed": SEED,
        "transformers": transformers.__version__,
    }
    save_file(
        arrays,
        HERE / f"{name}.safetensors",
        {key: json.dumps(value) for key, value in metadata.items()},
    )
    print(f"{name}: {', '.join(arrays)}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:] or CASES:
        write(name, CASES[name])
