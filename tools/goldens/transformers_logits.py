"""Write the golden logits of `packages/mlxlm-models/tests/goldens` from transformers.

Run in an environment of its own: pip install torch transformers safetensors, then
python tools/goldens/transformers_logits.py [case …]

A golden is one safetensors file: the logits of a full prefill and, only where transformers
itself gives others, of a prefill in chunks and of single steps with a cache. Its metadata
hold the config, the tokens, the chunk sizes, and the names and shapes of the weights, which
`weight()` makes anew from the seed. Everything is float32; `bfloat16_error` is how far the
same model is off in bfloat16, as the norm of the difference over the norm of the logits.
"""

import json
import sys
import zlib
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import transformers
from cases import CASES, Case
from safetensors import safe_open
from safetensors.numpy import save_file
from transformers.core_model_loading import revert_weight_conversion

HERE = Path(__file__).resolve().parents[2] / "packages/mlxlm-models/tests/goldens"
SEED = 20240607
LENGTH = 24
CHUNKS = [10, 9, 5]


def weight(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return the tensor `name`; tests/conftest.py makes the same."""
    noise = np.random.default_rng([SEED, zlib.crc32(name.encode())]).standard_normal(shape)
    if len(shape) <= 1:
        value = 0.1 * noise + name.endswith(".weight")
    elif "embed" in name:
        value = noise
    else:
        value = 2.0 * noise / shape[-1] ** 0.5
    return np.asarray(value, np.float32)


def build(config: dict) -> torch.nn.Module:
    """Return the model that reads the checkpoint we make, in its public layout, as anyone would."""
    settings = transformers.AutoConfig.for_model(**deepcopy(config))  # it changes what it gets
    auto = transformers.AutoModelForCausalLM
    if "text_config" in config:
        auto = transformers.AutoModelForImageTextToText
    plain = auto.from_config(settings).float()
    checkpoint = {name: weight(name, shape) for name, shape in shapes_of(plain).items()}
    with TemporaryDirectory() as folder:
        save_file(checkpoint, Path(folder) / "model.safetensors", {"format": "pt"})
        transformers.GenerationConfig().save_pretrained(folder)
        model, report = auto.from_pretrained(
            folder,
            config=settings,
            dtype=torch.float32,
            attn_implementation="eager",
            experts_implementation="eager",
            output_loading_info=True,
        )
    assert not report["unexpected_keys"], report
    assert not report["missing_keys"], report
    return model.eval()


def text_model(model: torch.nn.Module) -> torch.nn.Module:
    """Return what gives logits for tokens: of Llama 4, the model inside."""
    inside = getattr(model, "language_model", None)
    return inside if hasattr(inside, "lm_head") else model


def shapes_of(model: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    """Return what a public checkpoint of `model` holds: tied copies only once."""
    tied = set(model.all_tied_weights_keys)
    state = {name: value for name, value in model.state_dict().items() if name not in tied}
    public = revert_weight_conversion(model, state)
    return {name: tuple(value.shape) for name, value in public.items()}


@torch.no_grad()
def logits(model: torch.nn.Module, tokens: list[int], sizes: list[int]) -> np.ndarray:
    cache = transformers.DynamicCache(config=model.config)
    parts, start = [], 0
    for size in sizes:
        ids = torch.tensor([tokens[start : start + size]])
        parts.append(model(input_ids=ids, cache=cache, use_cache=True).logits[0].float().numpy())
        start += size
    return np.concatenate(parts)


@torch.no_grad()
def logits_recomputed(model: torch.nn.Module, tokens: list[int], sizes: list[int]) -> np.ndarray:
    """Like `logits`, the whole text passing through the model each time.

    For LongRoPE: the model's forward leaves cached keys as they are when the text outgrows
    the short frequencies; `generate` drops the cache then, for the model to be right.
    """
    parts, start = [], 0
    for size in sizes:
        start += size
        ids = torch.tensor([tokens[:start]])
        parts.append(model(input_ids=ids, use_cache=False).logits[0, -size:].float().numpy())
    return np.concatenate(parts)


def difference(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


def same(path: Path, arrays: dict[str, np.ndarray], facts: dict[str, str]) -> bool:
    """Tell whether the file holds this already: safetensors shuffles the metadata."""
    if not path.exists():
        return False
    with safe_open(path, "np") as file:
        held = {key: json.loads(value) for key, value in file.metadata().items()}
        return held == {key: json.loads(value) for key, value in facts.items()} and all(
            key in arrays and np.array_equal(file.get_tensor(key), arrays[key])
            for key in file.keys()  # noqa: SIM118
        )


def write(name: str, case: Case) -> None:
    config = case.config
    text = config.get("text_config", config)
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode())])
    tokens = rng.integers(1, text["vocab_size"], LENGTH).tolist()
    whole = build(config)
    shapes, model = shapes_of(whole), text_model(whole)
    prefill = logits(model, tokens, [LENGTH])
    arrays = {"prefill": prefill}
    run = logits_recomputed if "original_max_position_embeddings" in config else logits
    for way, sizes in (("chunks", CHUNKS), ("steps", [1] * LENGTH)):
        other = run(model, tokens, sizes)
        if difference(other, prefill) > 1e-5:
            arrays[way] = other
    for without in case.without:
        changed = logits(text_model(build(config | without)), tokens, [LENGTH])
        effect = difference(changed, prefill)
        assert effect > 1e-2, f"{name}: {without} changes the logits by {effect} only"
    for parameter in model.parameters():  # not the buffers: RoPE's tables stay float32
        parameter.data = parameter.data.bfloat16()
    rounded = logits(model, tokens, [LENGTH])
    metadata = {
        "config": config,
        "tokens": tokens,
        "chunks": CHUNKS,
        "weights": {key: list(shape) for key, shape in shapes.items()},
        "seed": SEED,
        "bfloat16_error": float(np.linalg.norm(rounded - prefill) / np.linalg.norm(prefill)),
        "transformers": transformers.__version__,
    }
    facts = {key: json.dumps(value) for key, value in metadata.items()}
    path = HERE / f"{name}.safetensors"
    if not same(path, arrays, facts):
        save_file(arrays, path, facts)
    print(f"{name}: {', '.join(arrays)}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for name in sys.argv[1:] or CASES:
        write(name, CASES[name])
