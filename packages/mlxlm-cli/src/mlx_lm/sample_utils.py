"""mlx-lm's module `sample_utils`: the names of mlxlm-sample."""

from mlx_lm._forward import forward

__getattr__, __dir__ = forward(__name__, "mlxlm_sample")
