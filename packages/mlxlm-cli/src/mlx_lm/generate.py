"""mlx-lm's module `generate`: `python -m mlx_lm.generate`, and the names of mlxlm-generate."""

from mlxlm_cli.generate import main

from mlx_lm._forward import forward

__all__ = ["main"]
__getattr__, __dir__ = forward(__name__, "mlxlm_generate")

if __name__ == "__main__":
    from mlxlm_cli.main import main_of_module

    raise SystemExit(main_of_module("generate"))
