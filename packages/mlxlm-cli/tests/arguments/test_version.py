from importlib.metadata import version
from typing import Any

import pytest


@pytest.mark.parametrize(
    "name", ["mlx_lm", "mlxlm", "mlx_lm.generate", "mlx_lm.chat", "mlx_lm.server"]
)
def test_every_command_tells_its_version(command: Any, name: str) -> None:
    done = command(name, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"mlxlm-cli {version('mlxlm-cli')}\n"
