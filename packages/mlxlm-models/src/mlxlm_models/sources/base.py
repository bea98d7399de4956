"""A model found on this machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["directory", "gguf", "package", "hub"]


@dataclass(frozen=True)
class Source:
    """`path` is a model directory or one `.gguf` file; `name` is what was asked for."""

    name: str
    kind: Kind
    path: Path
    revision: str | None = None

    @property
    def is_gguf(self) -> bool:
        return is_gguf(self.path)


def is_gguf(path: Path) -> bool:
    return path.suffix.lower() == ".gguf"
