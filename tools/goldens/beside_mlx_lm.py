"""Check that mlx-lm gives the logits of `forward` for the same random checkpoints.

Run from tools/goldens in an environment with mlx-lm==0.32.2 and safetensors:
python beside_mlx_lm.py [case …]. A case's `peer` are the changes that mlx-lm needs to its
config (it has keys of its own), or None where it can't have the case.
"""

import sys

import mlx.core as mx
import mlx_lm_logits
import numpy as np
from cases import CASES
from forward_logits import logits
from golden_files import LENGTH, difference, tokens_of, weight
from mlx.utils import tree_flatten
from mlx_lm.utils import _get_classes


def check(name: str) -> float:
    """Return the largest relative difference over a prefill and single steps."""
    case = CASES[name]
    compared = case.config | case.beside
    tokens = tokens_of(name, case.config["vocab_size"]) * case.peer_repeats
    expected, shapes = logits(compared, tokens)
    config = compared | (case.peer or {})
    model_class, args_class = _get_classes(dict(config))
    model = model_class(args_class.from_dict(dict(config)))
    weights = {}
    for key, shape in shapes.items():
        name_there = key
        for old, new in case.peer_names.items():
            name_there = name_there.replace(old, new)
        weights[name_there] = mx.array(weight(key, shape))
    if hasattr(model, "sanitize"):
        weights = model.sanitize(weights)
    model.load_weights(list(weights.items()), strict=True)
    assert tree_flatten(model.parameters())
    half = LENGTH // 2
    ways = [[len(tokens)], [half, *[1] * (len(tokens) - half)]]
    errors = []
    for sizes in [[1] * len(tokens)] if case.peer_steps else ways:
        theirs = mlx_lm_logits.logits(model.eval(), tokens, sizes)
        real = np.abs(theirs).max(axis=0) < 1e30  # it masks what is no token
        errors.append(difference(theirs[:, real], expected[:, real]))
    return max(errors)


if __name__ == "__main__":
    names = sys.argv[1:] or [
        n for n, case in CASES.items() if case.source == "forward" and case.peer is not None
    ]
    failed = False
    for name in names:
        error = check(name)
        failed |= error > 1e-4
        print(f"{name}: {error:.1e}")
    sys.exit(failed)
