"""Write the golden logits of `packages/mlxlm-models/tests/goldens` from transformers.

Run in an environment of its own: pip install torch transformers safetensors, then
python tools/goldens/transformers_logits.py [case …]
"""

import sys
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import transformers
from cases import CASES, Case
from golden_files import check_effect, in_every_way, save, tokens_of, weight
from safetensors.numpy import save_file
from transformers.core_model_loading import revert_weight_conversion


def build(config: dict) -> torch.nn.Module:
    """Return the model that reads the checkpoint we make, in its public layout, as anyone would."""
    settings = transformers.AutoConfig.for_model(**deepcopy(config))  # it changes what it gets
    auto = transformers.AutoModelForCausalLM
    if "text_config" in config:
        auto = transformers.AutoModelForImageTextToText
    elif type(settings) not in auto._model_mapping:
        # Mistral 4 is only meant to be used within a multimodal model.
        auto = getattr(transformers, type(settings).__name__.replace("Config", "ForCausalLM"))
        auto.from_config = auto._from_config
    plain = auto.from_config(settings).float()
    checkpoint = {name: weight(name, shape) for name, shape in shapes_of(plain).items()}
    with TemporaryDirectory() as folder:
        save_file(checkpoint, Path(folder) / "model.safetensors", {"format": "pt"})
        transformers.GenerationConfig().save_pretrained(folder)
        model, report = auto.from_pretrained(
            folder,
            config=settings,
            dtype=torch.float32,
            # Falcon's eager attention adds its biases twice.
            attn_implementation="sdpa" if config["model_type"] == "falcon" else "eager",
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
    # Undoing Kimi's conversion, it renames the layers of the text like those of the vision.
    return {
        name.replace("language_model.model.blocks.", "language_model.model.layers."): tuple(
            value.shape
        )
        for name, value in public.items()
    }


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


def write(name: str, case: Case) -> None:
    config = case.config
    tokens = tokens_of(name, config.get("text_config", config)["vocab_size"])
    known = {} if case.known_as is None else {"model_type": case.known_as}
    whole = build(config | known)
    shapes, model = shapes_of(whole), text_model(whole)
    long = "original_max_position_embeddings" in config
    arrays = in_every_way(
        lambda *args: logits(model, *args),
        lambda *args: (logits_recomputed if long else logits)(model, *args),
        tokens,
    )
    for without in case.without:
        changed = logits(text_model(build(config | without | known)), tokens, [len(tokens)])
        check_effect(name, without, changed, arrays["prefill"])
    for parameter in model.parameters():  # not the buffers: RoPE's tables stay float32
        parameter.data = parameter.data.bfloat16()
    rounded = logits(model, tokens, [len(tokens)])
    save(name, config, tokens, shapes, arrays, rounded, {"transformers": transformers.__version__})


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for name in sys.argv[1:] or [n for n, case in CASES.items() if case.source == "transformers"]:
        write(name, CASES[name])
