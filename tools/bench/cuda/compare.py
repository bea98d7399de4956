"""Hold what one device computed against another's."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

BOUNDS = {"bfloat16": 8e-3, "float16": 1e-3, "float32": 1e-4}
"""Largest relative error (norm of the difference over the norm) of one operation."""

MODEL_BOUND = 1e-3  # of a small float32 model, whose packed products may be 16-bit inside


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
            if same < expected[name].size:
                wrong.append(f"{name}: differs at token {same}")
            continue
        error = relative_error(found[name], expected[name])
        worst[kind] = max(worst.get(kind, 0.0), error)
        bound = next((b for dtype, b in BOUNDS.items() if dtype in name), MODEL_BOUND)
        if name.startswith(("logits", "first")):
            bound = MODEL_BOUND
        if not error <= bound:  # NaN too
            wrong.append(f"{name}: relative error {error:.1e}, bound {bound:.0e}")
    for kind, error in worst.items():
        print(f"{kind:<32} relative error {error:.1e}")
    return wrong


def relative_error(found: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    difference = found.astype(np.float64) - expected.astype(np.float64)
    return float(np.linalg.norm(difference) / np.linalg.norm(expected.astype(np.float64)))
