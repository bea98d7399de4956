"""The same shape in transformers on torch, bfloat16, scaled-dot-product attention: its best mode.

    python tools/bench/cuda/torch_side.py [--small]

Decoding runs over a static cache, eager and as a captured CUDA graph; prefill is one call
of the model for the logits of the last token. Prints tokens per second, medians.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from shapes import LLAMA_3_1_8B, SMALL
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

PROMPT = 128


def build(config: dict[str, Any], device: str) -> LlamaForCausalLM:
    scaling = {**config["rope_scaling"], "rope_theta": config["rope_theta"]}
    settings = LlamaConfig(**{**config, "rope_scaling": scaling}, attn_implementation="sdpa")
    torch.manual_seed(0)
    with torch.device(device):
        torch.set_default_dtype(torch.bfloat16)
        model = LlamaForCausalLM(settings).eval()
        torch.set_default_dtype(torch.float32)
    return model


def timed(run: Callable[[], object], rounds: int) -> float:
    """Return the median of seconds, after one run to warm up."""
    seconds = []
    for _ in range(rounds + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def prefill(model: LlamaForCausalLM, length: int, rounds: int) -> float:
    ids = torch.arange(length, device=model.device)[None] * 7 % 1000
    return length / timed(lambda: model(ids, logits_to_keep=1, use_cache=True), rounds)


def decode(model: LlamaForCausalLM, batch: int, steps: int) -> tuple[float, float]:
    """Return tokens per second, eager and as a CUDA graph."""
    cache = StaticCache(config=model.config, max_cache_len=PROMPT + 8)
    ids = torch.ones((batch, PROMPT), dtype=torch.long, device=model.device)
    model(ids, past_key_values=cache, logits_to_keep=1)
    token = ids[:, :1].clone()
    place = torch.full((1,), PROMPT, device=model.device)

    def step() -> None:
        logits = model(
            token, past_key_values=cache, position_ids=place[None], cache_position=place
        ).logits
        token.copy_(logits[:, -1:].argmax(-1))

    def rewind() -> None:  # the cache counts its tokens; each step is to write the same place
        for layer in cache.layers:
            count = getattr(layer, "cumulative_length", None)
            if torch.is_tensor(count):
                count.fill_(PROMPT)
            elif count is not None:
                layer.cumulative_length = PROMPT

    def eager() -> None:
        for _ in range(steps):
            rewind()
            step()

    plain = batch * steps / timed(eager, 3)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            rewind()
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        rewind()
        step()

    def replay() -> None:
        for _ in range(steps):
            graph.replay()

    return plain, batch * steps / timed(replay, 3)


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="tiny shapes, to try the program")
    arguments = parser.parse_args()
    model = build(SMALL if arguments.small else LLAMA_3_1_8B, "cuda")
    for length in (2048, 16384):
        print(f"torch bf16 prefill {length}: {prefill(model, length, 3):.1f}", flush=True)
    for batch in (1, 8, 32, 128):
        eager, graph = decode(model, batch, 64)
        print(f"torch bf16 decode {batch}: eager {eager:.1f}, graph {graph:.1f}", flush=True)


if __name__ == "__main__":
    main()
