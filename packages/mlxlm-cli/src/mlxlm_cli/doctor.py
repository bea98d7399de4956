"""`mlxlm doctor`: what runs here, and how fast it can be expected to."""

import platform
import sys
from argparse import Namespace
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from mlxlm_cli.arguments.parser import Parser
from mlxlm_cli.run import run

_OURS = (
    "mlxlm-cache",
    "mlxlm-sample",
    "mlxlm-models",
    "mlxlm-generate",
    "mlxlm-server",
    "mlxlm-cli",
)
_THEIRS = ("mlx", "transformers", "tokenizers", "huggingface-hub", "safetensors")


def main(argv: list[str] | None = None, prog: str = "mlxlm doctor") -> int:
    return run(build_parser(prog), execute, argv)


def build_parser(prog: str = "mlxlm doctor") -> Parser:
    return Parser(prog, "Show versions, backend, BLAS, threads, how weights are kept, and memory.")


def execute(args: Namespace) -> None:
    for name, value in report():
        print(f"{name:16}{value}")


def report() -> Iterator[tuple[str, str]]:
    """Yield what to show, one name and value a line. Imports MLX."""
    from mlxlm_cache.device import (
        available_memory,
        backend,
        blas_status,
        total_memory,
        usable_cores,
    )
    from mlxlm_models.cpu_policy import cpu_policy

    for package in (*_OURS, *_THEIRS):
        yield package, installed(package)
    yield "python", f"{platform.python_version()} ({sys.executable})"
    yield "system", f"{platform.system()} {platform.release()} {platform.machine()}"
    yield "backend", backend()
    yield "blas", str(blas_status())
    yield "weights", cpu_policy()
    yield "cpu cores", str(usable_cores())
    free, total = (amount / 1e9 for amount in (available_memory(), total_memory()))
    yield "memory", f"{free:.1f} GB free of {total:.1f} GB"


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
