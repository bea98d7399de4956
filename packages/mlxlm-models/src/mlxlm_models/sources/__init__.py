"""Where a model comes from: a directory, a `.gguf` file, an installed package, a hub."""

from mlxlm_models.sources.base import Kind, Source
from mlxlm_models.sources.search import resolve

__all__ = ["Kind", "Source", "resolve"]
