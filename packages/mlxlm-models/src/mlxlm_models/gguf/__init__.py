"""GGUF files: llama.cpp's container of weights, settings and tokenizer."""

from mlxlm_models.gguf.checkpoint import GGUFCheckpoint, checkpoint_of, read_gguf
from mlxlm_models.gguf.reader import GGUFFile, Tensor, open_gguf

__all__ = ["GGUFCheckpoint", "GGUFFile", "Tensor", "checkpoint_of", "open_gguf", "read_gguf"]
