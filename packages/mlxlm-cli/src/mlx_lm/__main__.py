"""`python -m mlx_lm <command>`."""

from mlxlm_cli.main import main

raise SystemExit(main(prog="mlx_lm"))
