"""Record what mlx-lm 0.32.2 samples, for packages/mlxlm-sample/tests.

Run in an environment of its own that has mlx-lm, which is only called, never read:

    python tools/goldens/sampling.py packages/mlxlm-sample/tests/data/sampling.json
"""

import argparse
import json
import warnings
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

VOCAB = 48
DRAWS = 60

FILTERS: list[dict[str, Any]] = [
    {"apply_top_p": [0.9]},
    {"apply_top_p": [0.3]},
    {"apply_top_p": [1e-6]},
    {"apply_min_p": [0.1]},
    {"apply_min_p": [0.9, 5]},
    {"apply_min_p": [1e-30]},
    {"apply_top_k": [1]},
    {"apply_top_k": [7]},
    {"apply_top_k": [VOCAB - 1]},
    {"apply_xtc": [1.0, 0.1, []]},
    {"apply_xtc": [1.0, 0.02, [0, 5]]},
    {"apply_xtc": [1.0, 0.0, [1]]},
]
SAMPLERS: list[dict[str, Any]] = [
    {"temp": 0.0},
    {"temp": 1.0},
    {"temp": 0.3},
    {"temp": 5.0},
    {"temp": 0.8, "top_p": 0.9},
    {"temp": 0.8, "top_p": 1.0},
    {"temp": 0.8, "min_p": 0.05},
    {"temp": 1.5, "min_p": 0.5, "min_tokens_to_keep": 4},
    {"temp": 0.8, "top_k": 5},
    {"temp": 1.0, "xtc_probability": 0.5, "xtc_threshold": 0.1},
    {"temp": 1.0, "xtc_probability": 0.5, "xtc_threshold": 0.02, "xtc_special_tokens": [3, 4]},
    {"temp": 0.9, "top_p": 0.95, "min_p": 0.02, "top_k": 6, "xtc_probability": 0.4},
]
PROCESSORS: list[dict[str, Any]] = [
    {"logit_bias": {"3": 2.5, "40": -100.0}},
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.8, "repetition_context_size": 4},
    {"repetition_penalty": 1.3, "repetition_context_size": 1000},
    {"presence_penalty": 0.7},
    {"presence_penalty": -0.7, "presence_context_size": 3},
    {"frequency_penalty": 0.4},
    {"frequency_penalty": -0.4, "frequency_context_size": 5},
    {
        "logit_bias": {"7": 1.0},
        "repetition_penalty": 1.2,
        "presence_penalty": 0.3,
        "frequency_penalty": 0.2,
    },
]


def record() -> dict[str, Any]:
    sample_utils = import_module("mlx_lm.sample_utils")
    rng = np.random.default_rng(20)
    rows = np.round(rng.normal(0, 2.5, (3, VOCAB)), 3)
    history = rng.integers(0, VOCAB, 30).tolist() + [7, 7, 3, 7]
    logits = mx.array(rows.astype(np.float32))
    logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)

    def kept(name: str, arguments: list[Any]) -> list[list[int]]:
        filtered = np.array(getattr(sample_utils, name)(logprobs, *arguments))
        return [np.flatnonzero(np.isfinite(row)).tolist() for row in filtered]

    def draws(batch: mx.array, options: dict[str, Any]) -> list[Any]:
        sampler = sample_utils.make_sampler(**options)
        mx.random.seed(42)
        return [sampler(batch).tolist() for _ in range(DRAWS)]

    def processed(options: dict[str, Any]) -> list[float]:
        options = dict(options)
        if "logit_bias" in options:
            options["logit_bias"] = {int(k): v for k, v in options["logit_bias"].items()}
        result = logits[:1]
        for processor in sample_utils.make_logits_processors(**options):
            result = processor(mx.array(history), result)
        return [round(float(value), 5) for value in np.array(result[0])]

    mx.random.seed(42)
    canary = [mx.random.categorical(logprobs[:1]).tolist() for _ in range(DRAWS)]
    mx.random.seed(42)
    batch_canary = [mx.random.categorical(logprobs).tolist() for _ in range(DRAWS)]
    return {
        "mlx_lm": version("mlx-lm"),
        "mlx": version("mlx"),
        "logits": rows.tolist(),
        "history": history,
        "seed": 42,
        "categorical": canary,
        "categorical_batch": batch_canary,
        "filters": [
            {"name": name, "arguments": arguments, "kept": kept(name, arguments)}
            for entry in FILTERS
            for name, arguments in entry.items()
        ],
        "samplers": [{"options": o, "tokens": draws(logprobs[:1], o)} for o in SAMPLERS],
        "batch_samplers": [
            {"options": o, "tokens": draws(logprobs, o)}
            for o in SAMPLERS
            if "xtc_probability" not in o
        ],
        "processors": [{"options": o, "logits": processed(o)} for o in PROCESSORS],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="JSON file to write")
    file: Path = parser.parse_args().file
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        golden = record()
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(golden[key])}" for key in golden)
    partial = file.with_suffix(".partial")
    partial.write_text("{\n" + lines + "\n}\n")
    partial.replace(file)


if __name__ == "__main__":
    main()
