"""Safetensors checkpoints: read, checked, put into a model and streamed into memory."""

from mlxlm_models.weights.assign import assign
from mlxlm_models.weights.checkpoint import read_weights
from mlxlm_models.weights.stream import materialize

__all__ = ["assign", "materialize", "read_weights"]
