"""mlx-lm's module `server`: `python -m mlx_lm.server`."""

from mlxlm_cli.server import main

__all__ = ["main"]

if __name__ == "__main__":
    from mlxlm_cli.main import main_of_module

    raise SystemExit(main_of_module("server"))
