"""Prefixes on disk, across the ends of servers."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mlxlm_models import load

PROMPTS = [[(7 * i + 13 * n) % 1000 + 100 for i in range(300)] for n in range(4)]

KILLED = """
from mlxlm_cache.device import preload_blas
preload_blas()
import os, signal, sys
from pathlib import Path
import httpx
from mlxlm_server import ServerSettings, create_app
checkpoint, folder, prompts = sys.argv[1], Path(sys.argv[2]), eval(sys.argv[3])
written, fsync = [], os.fsync

def killed_at_the_second(file):
    written.append(file)
    if len(written) == 3:  # a file is followed by its folder
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(file)

os.fsync = killed_at_the_second

async def main():
    app = create_app(ServerSettings(models=(checkpoint,), disk_cache=folder))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
            for prompt in prompts:
                await http.post("/v1/completions", json={"prompt": prompt, "max_tokens": 6})

import asyncio
asyncio.run(main())
"""


def answers(live: Any) -> list[tuple[str, int]]:
    given = []
    for prompt in PROMPTS:
        body = {"prompt": prompt, "max_tokens": 6}
        answer = live.http.post("/v1/completions", json=body).json()
        cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        given.append((answer["choices"][0]["text"], cached))
    return given


@pytest.fixture
def right(serve_tiny: Any) -> list[str]:
    return [text for text, _ in answers(serve_tiny())]


def loading(checkpoint: Path) -> Any:
    return lambda name, adapter: load(checkpoint)


def test_a_server_that_was_killed_while_it_wrote_is_followed_by_one_that_answers_right(
    serve: Any, checkpoint: Path, tmp_path: Path, right: list[str]
) -> None:
    command = [sys.executable, "-c", KILLED, str(checkpoint), str(tmp_path), repr(PROMPTS)]
    died = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert len(list(tmp_path.glob("prompt-*"))) == 1
    assert len(list(tmp_path.glob(".writing-*"))) == 1

    live = serve(load=loading(checkpoint), models=(str(checkpoint),), disk_cache=tmp_path)
    given = answers(live)
    assert [text for text, _ in given] == right
    assert [cached for _, cached in given] == [299, 0, 0, 0]


def test_prefixes_are_found_after_a_restart_but_not_those_of_other_weights_or_settings(
    run: Any, make_model: Any, tiny: Any, tmp_path: Path, right: list[str]
) -> None:
    with run(tiny, disk_cache=tmp_path) as live:
        assert answers(live) == [(text, 0) for text in right]
    with run(tiny, disk_cache=tmp_path) as live:
        assert answers(live) == [(text, 299) for text in right]
    with run(tiny, disk_cache=tmp_path, max_kv_size=512) as live:
        assert answers(live) == [(text, 0) for text in right]
    other = make_model(seed=1), tiny[1]
    with run(other, disk_cache=tmp_path) as live:
        assert [cached for _, cached in answers(live)] == [0, 0, 0, 0]
