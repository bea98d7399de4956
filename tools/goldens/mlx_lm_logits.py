"""Write the golden logits of the types that transformers lacks, from mlx-lm as a black box.

Run in an environment of its own: pip install mlx-lm==0.32.2 safetensors, then
python tools/goldens/mlx_lm_logits.py [case …]

The weights are made under the names that mlx-lm's model has, or, where a case has `shapes`,
under those of a public checkpoint, which mlx-lm then sanitizes.
"""

import sys
from copy import deepcopy
from importlib.metadata import version
from typing import Any

import mlx.core as mx
import numpy as np
from cases import CASES, Case
from golden_files import check_effect, in_every_way, save, tokens_of, weight
from mlx.utils import tree_flatten, tree_map
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import _get_classes


def build(case: Case, config: dict[str, Any]) -> tuple[Any, dict[str, tuple[int, ...]]]:
    """Return the model, and the shapes of the checkpoint that it read."""
    model_class, args_class = _get_classes(deepcopy(config))
    model = model_class(args_class.from_dict(deepcopy(config)))
    own = {name: tuple(value.shape) for name, value in tree_flatten(model.parameters())}
    shapes = dict(case.shapes) or own
    weights = {name: mx.array(weight(name, shape)) for name, shape in shapes.items()}
    if case.shapes and hasattr(model, "sanitize"):
        weights = model.sanitize(weights)
    model.load_weights(list(weights.items()), strict=True)
    return model.eval(), shapes


def logits(model: Any, tokens: list[int], sizes: list[int]) -> np.ndarray:
    cache = make_prompt_cache(model)
    parts, start = [], 0
    for size in sizes:
        out = model(mx.array([tokens[start : start + size]]), cache=cache)[0]
        parts.append(np.array(out.astype(mx.float32)))
        start += size
    return np.concatenate(parts)


def write(name: str, case: Case) -> None:
    config = case.config
    tokens = tokens_of(name, config.get("text_config", config)["vocab_size"])
    model, shapes = build(case, config)
    arrays = in_every_way(*[lambda *args: logits(model, *args)] * 2, tokens)
    for without in case.without:
        changed = logits(build(case, config | without)[0], tokens, [len(tokens)])
        check_effect(name, without, changed, arrays["prefill"])
    model.update(tree_map(lambda value: value.astype(mx.bfloat16), model.parameters()))
    try:
        rounded = logits(model, tokens, [len(tokens)])
    except RuntimeError as error:  # on CPU, MLX's gathered product is float32 alone
        if "float32" not in str(error):
            raise
        rounded = None
    save(name, config, tokens, shapes, arrays, rounded, {"mlx-lm": version("mlx-lm")})


if __name__ == "__main__":
    for name in sys.argv[1:] or [n for n, case in CASES.items() if case.source == "mlx-lm"]:
        write(name, CASES[name])
