"""GGUF files: llama.cpp's container of weights, settings and tokenizer."""

from mlxlm_models.gguf.checkpoint import GGUFCheckpoint, read_gguf
from mlxlm_models.gguf.reader import GGUFFile, Tensor, open_gguf

__all__ = ["GGUFCheckpoint", "GGUFFile", "Tensor", "open_gguf", "read_gguf"]
