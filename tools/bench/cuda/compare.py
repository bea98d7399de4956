"""Hold what one device computed against another's."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

BOUNDS = {"bfloat16": 8e-3, "float16": 1e-3, "float32": 1e-3}
"""Largest relative error (norm of the difference over the norm) of one operation. In float32
MLX may multiply in TF32 on a GPU."""

MODEL_BOUNDS = {"kv4": 5e-2, "kv8": 5e-3, "": 2e-3}
"""Of a small float32 model's probabilities. A small difference makes a key or value round to
another number: that is a step of 1/15 or 1/255 of a group's range."""


def compare(reference: Path, result: Path) -> list[str]:
    """Print the largest error of each kind; return what is out of bounds."""
    from safetensors.numpy import load_file

    expected, found = load_file(reference), load_file(result)
    wrong: list[str] = []
    worst: dict[str, float] = {}
    for name in expected:
        kind = "/".join(name.split("/")[:-1]) if name.startswith("product") else name
        if name.startswith("tokens"):
            same = int(np.argmin(np.append(expected[name] == found[name], False)))
            print(f"{name:<32} {same} of {expected[name].size} greedy tokens equal")
            if "kv4" not in name and same < expected[name].size:
                wrong.append(f"{name}: differs at token {same}")
            continue
        error = relative_error(found[name], expected[name])
        worst[kind] = max(worst.get(kind, 0.0), error)
        bounds = MODEL_BOUNDS if name.startswith(("logits", "first")) else BOUNDS
        bound = next(bound for part, bound in bounds.items() if part in name)
        if not error <= bound:  # NaN too
            wrong.append(f"{name}: relative error {error:.1e}, bound {bound:.0e}")
    for kind, error in worst.items():
        print(f"{kind:<32} relative error {error:.1e}")
    return wrong


def relative_error(found: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    difference = found.astype(np.float64) - expected.astype(np.float64)
    return float(np.linalg.norm(difference) / np.linalg.norm(expected.astype(np.float64)))
