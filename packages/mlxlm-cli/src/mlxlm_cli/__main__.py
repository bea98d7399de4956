"""`python -m mlxlm_cli`."""

from mlxlm_cli.main import main

raise SystemExit(main(prog="mlxlm"))
