"""Llama 1 to 3, and the many models published under its type."""

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm

ARCHITECTURE = Architecture("llama", DecoderConfig, causal_lm)
