"""Servers of one model side by side: mlxlm's and mlx-lm's, each alone, in turn.

    python tools/bench/serve.py --ours .venv/bin/python --peer PEER/bin/python \
        --model CHECKPOINT [--rounds 3] [--rate 0.7] [--requests 24] [--sides ours,peer+blas]

The client is this file alone: asyncio and HTTP over plain sockets, `/v1/completions`,
streamed, greedy. In each round each side's server is started, measured and stopped:

- start: seconds from the process's start to its first answer of one token (aim: 0.8 of theirs);
- idle: per cent of a core in three seconds without requests (aim: under 1);
- throughput: tokens per second, 8 clients who each ask again when they are answered (1.15);
- first, gap: seconds to the first token, and between two that follow, while requests come
  at times drawn beforehand whatever becomes of earlier ones (open loop), four short prompts
  to a long one (0.8; 0.5 for the gaps' p99);
- warm: seconds to the first token of a prompt whose beginning was asked before (0.7).

See `beside` for how sides are run and `peer+blas`.
"""

import asyncio
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile

OURS = """
import sys
from mlxlm_cache.device import preload_blas
preload_blas()
from mlxlm_server import ServerSettings, serve
serve(ServerSettings(models=(sys.argv[1],)), port=int(sys.argv[2]))
"""
WORDS = """
river stone lamp window garden bridge letter paper music story winter summer yellow silver
market village engine doctor teacher farmer captain island forest mountain valley morning
"""


@dataclass
class Told:
    """When each piece of an answer came, in seconds since the request was due."""

    times: list[float] = field(default_factory=list)
    tokens: int = 0

    @property
    def gaps(self) -> list[float]:
        return [b - a for a, b in zip(self.times, self.times[1:], strict=False)]


def text(draw: random.Random, words: int) -> str:
    return " ".join(draw.choice(WORDS.split()) for _ in range(words))


async def lines(reader: asyncio.StreamReader, chunked: bool) -> AsyncIterator[bytes]:
    """Yield the lines of a body, as they come."""
    rest = b""
    while True:
        if chunked:
            size = int((await reader.readline()).split(b";")[0], 16)
            part = await reader.readexactly(size + 2)
            part = part[:-2]
        else:
            part = await reader.read(65536)
        if not part:
            return
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            yield line


async def ask(port: int, model: str, prompt: str, tokens: int, due: float | None = None) -> Told:
    """Ask for a completion, and read it to its end."""
    start = time.perf_counter() if due is None else due
    body = json.dumps({
        "model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True,
        "stream_options": {"include_usage": True},
    })  # fmt: skip
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    told = Told()
    try:
        head = (
            f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write((head + body).encode())
        status = await reader.readline()
        if b" 200 " not in status:
            raise RuntimeError(f"{status!r}: {(await reader.read(2000))!r}")
        chunked = False
        while (header := await reader.readline()).strip():
            chunked |= header.lower().startswith(b"transfer-encoding: chunked")
        async for line in lines(reader, chunked):
            if line.startswith(b"data: [DONE]"):
                break  # a server may leave the connection open
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                raise RuntimeError(str(event))
            if event.get("usage"):
                told.tokens = event["usage"]["completion_tokens"]
            if any(choice.get("text") for choice in event["choices"]):
                told.times.append(time.perf_counter() - start)
    finally:
        writer.close()
    return told


async def throughput(port: int, model: str, each: int) -> float:
    draw = random.Random(1)
    prompts = [[text(draw, draw.randint(20, 80)) for _ in range(each)] for _ in range(8)]
    start = time.perf_counter()

    async def client(asked: list[str]) -> int:
        return sum([(await ask(port, model, prompt, 48)).tokens for prompt in asked])

    tokens = sum(await asyncio.gather(*map(client, prompts)))
    return tokens / (time.perf_counter() - start)


async def mixed(port: int, model: str, count: int, rate: float) -> list[Told]:
    draw = random.Random(2)
    start, due = time.perf_counter() + 0.1, 0.0
    asked = []
    for number in range(count):
        due += draw.expovariate(rate)
        long = number % 5 == 2
        asked.append((due, text(draw, 900 if long else draw.randint(15, 60)), 16 if long else 32))

    async def one(due: float, prompt: str, tokens: int) -> Told:
        await asyncio.sleep(max(0.0, start + due - time.perf_counter()))
        return await ask(port, model, prompt, tokens, start + due)

    return await asyncio.gather(*(one(*each) for each in asked))


async def warm(port: int, model: str) -> float:
    draw = random.Random(3)
    firsts = []
    for _ in range(3):
        shared = text(draw, 600)
        await ask(port, model, shared, 1)
        firsts.append((await ask(port, model, f"{shared} {text(draw, 8)}", 4)).times[0])
    return statistics.median(firsts)


async def first_answer(port: int, model: str, server: subprocess.Popen[bytes]) -> None:
    """Return once the server has answered for the first time."""
    while True:
        if server.poll() is not None:
            sys.exit(f"the server ended with {server.returncode}")
        try:
            await ask(port, model, "Hello", 1)
            return
        except (OSError, RuntimeError, asyncio.IncompleteReadError, ValueError):
            await asyncio.sleep(0.05)


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


async def figures(
    port: int, model: str, server: subprocess.Popen[bytes], begun: float, each: int, requests: int,
    rate: float,
) -> dict[str, float]:  # fmt: skip
    await first_answer(port, model, server)
    found = {"start s": time.perf_counter() - begun}
    await ask(port, model, text(random.Random(0), 40), 8)
    await asyncio.sleep(1)
    spent = cpu_seconds(server.pid)
    await asyncio.sleep(3)
    found["idle %"] = 100 * (cpu_seconds(server.pid) - spent) / 3
    found["throughput tok/s"] = await throughput(port, model, each)
    answers = await mixed(port, model, requests, rate)
    firsts = [told.times[0] for told in answers if told.times]
    gaps = [gap for told in answers for gap in told.gaps]
    found["first p50 s"], found["first p99 s"] = quantile(firsts, 0.5), quantile(firsts, 0.99)
    found["gap p50 s"], found["gap p99 s"] = quantile(gaps, 0.5), quantile(gaps, 0.99)
    found["warm s"] = await warm(port, model)
    return found


def measure(side: str, model: str, each: int, requests: int, rate: float) -> None:
    """Start a side's server with the Python that runs this, and print its figures."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-c", OURS, model, str(port)]
    if side != "ours":
        command = [sys.executable, "-m", "mlx_lm", "server", "--model", model, "--port", str(port)]
    with TemporaryFile() as log:
        begun = time.perf_counter()
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            found = asyncio.run(figures(port, model, server, begun, each, requests, rate))
        except BaseException:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace")[-5000:])
            raise
        finally:
            server.send_signal(signal.SIGINT)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
    print("RESULT", json.dumps(found))


def main() -> None:
    from beside import compare, parser

    made = parser(str(__doc__).splitlines()[0])
    made.add_argument("--model", required=True, help="checkpoint that both load")
    made.add_argument("--each", type=int, default=3, help="requests of each of 8 clients")
    made.add_argument("--requests", type=int, default=24, help="requests at drawn times")
    made.add_argument("--rate", type=float, default=0.7, help="of those in a second")
    options = made.parse_args()
    program = (
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from serve import measure\n"
        "side, model, each, requests, rate = sys.argv[1:]\n"
        "measure(side, model, int(each), int(requests), float(rate))"
    )
    compare(program, [options.model, options.each, options.requests, options.rate], options)


if __name__ == "__main__":
    main()
