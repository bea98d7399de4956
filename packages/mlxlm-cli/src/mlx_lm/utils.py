"""mlx-lm's module `utils`: the names of mlxlm-models."""

from mlx_lm._forward import forward

__getattr__, __dir__ = forward(__name__, "mlxlm_models")
