"""Write a random checkpoint of a measured shape that servers can load.

    python tools/bench/cuda/checkpoint.py FOLDER --tokenizer FOLDER [--model llama] [--small]

The tokenizer's files are copied, and the vocabulary is as large as its own.
"""

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
from build import flat, random_model
from shapes import MODELS

SHARD = 4_000_000_000
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "generation_config.json",
)


def shards(arrays: list[tuple[str, mx.array]]) -> Iterator[dict[str, mx.array]]:
    held: dict[str, mx.array] = {}
    for name, array in arrays:
        held[name] = array
        if sum(one.nbytes for one in held.values()) >= SHARD:
            yield held
            held = {}
    if held:
        yield held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--model", choices=MODELS, default="llama")
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    tokenizer = json.loads((arguments.tokenizer / "tokenizer.json").read_text())
    size = len(tokenizer["model"]["vocab"])
    config = {**MODELS[arguments.model][arguments.small], "vocab_size": size}
    arguments.folder.mkdir(parents=True)
    (arguments.folder / "config.json").write_text(json.dumps(config))
    for name in TOKENIZER_FILES:
        if (arguments.tokenizer / name).exists():
            shutil.copy(arguments.tokenizer / name, arguments.folder)
    index = {}
    for number, shard in enumerate(shards(flat(random_model(config, mx.bfloat16)))):
        name = f"model-{number:05}.safetensors"
        mx.save_safetensors(str(arguments.folder / name), shard, {"format": "pt"})
        index |= dict.fromkeys(shard, name)
    text = json.dumps({"metadata": {}, "weight_map": index})
    (arguments.folder / "model.safetensors.index.json").write_text(text)


if __name__ == "__main__":
    main()
