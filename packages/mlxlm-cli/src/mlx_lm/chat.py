"""mlx-lm's module `chat`: `python -m mlx_lm.chat`."""

from mlxlm_cli.chat import main

__all__ = ["main"]

if __name__ == "__main__":
    from mlxlm_cli.main import main_of_module

    raise SystemExit(main_of_module("chat"))
