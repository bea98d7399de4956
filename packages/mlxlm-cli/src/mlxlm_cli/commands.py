"""Which commands there are, and which of mlx-lm's are still to come."""

from dataclasses import dataclass
from importlib import import_module
from typing import Protocol


class Main(Protocol):
    """Run a command with its arguments; return the exit code."""

    def __call__(self, argv: list[str] | None = None, prog: str = ...) -> int: ...


@dataclass(frozen=True)
class Command:
    """What a command is for, and the module whose `main` runs it."""

    summary: str
    module: str

    @property
    def main(self) -> Main:
        function: Main = import_module(self.module).main
        return function


COMMANDS = {
    "generate": Command("generate text from a prompt", "mlxlm_cli.generate"),
    "chat": Command("talk with a model", "mlxlm_cli.chat"),
    "server": Command("serve models over HTTP, with OpenAI's API", "mlxlm_cli.server"),
    "doctor": Command("show versions, backend, BLAS and memory", "mlxlm_cli.doctor"),
}

NOT_YET = (
    "awq",
    "benchmark",
    "cache_prompt",
    "convert",
    "dwq",
    "dynamic_quant",
    "evaluate",
    "fuse",
    "gptq",
    "lora",
    "manage",
    "perplexity",
    "share",
    "upload",
)
"""Commands of mlx-lm that are not written yet."""
