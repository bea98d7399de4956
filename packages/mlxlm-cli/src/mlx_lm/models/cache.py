"""mlx-lm's module `models.cache`: the names of mlxlm-cache."""

from mlx_lm._forward import forward

__getattr__, __dir__ = forward(__name__, "mlxlm_cache")
