"""Write the golden logits of the types that transformers lacks, from `forward`.

Run from tools/goldens with NumPy and safetensors alone: python forward_logits.py [case …]
"""

import sys
from typing import Any

import numpy as np
from cases import CASES, Case
from forward import FORWARDS
from golden_files import check_effect, save, tokens_of, weight


def logits(
    config: dict[str, Any], tokens: list[int]
) -> tuple[np.ndarray, dict[str, tuple[int, ...]]]:
    """Return the logits (L, vocabulary) of a whole text, and what the checkpoint holds."""
    shapes: dict[str, tuple[int, ...]] = {}

    def read(name: str, *shape: int) -> np.ndarray:
        shapes[name] = shape
        return weight(name, shape).astype(np.float64)

    return FORWARDS[config["model_type"]](config, read, tokens).astype(np.float32), shapes


def write(name: str, case: Case) -> None:
    tokens = tokens_of(name, case.config["vocab_size"])
    prefill, shapes = logits(case.config, tokens)
    for without in case.without:
        check_effect(name, without, logits(case.config | without, tokens)[0], prefill)
    source = {"numpy": "float64"}
    save(name, case.config, tokens, shapes, {"prefill": prefill}, None, source)


if __name__ == "__main__":
    for name in sys.argv[1:] or [n for n, case in CASES.items() if case.source == "forward"]:
        write(name, CASES[name])
