"""Put carried wheels where child processes find them, without a package index."""

import os
import subprocess
import sys
from pathlib import Path


def install(wheels: Path, target: Path) -> None:
    """Unpack the wheels of `wheels` into `target`; dependencies have to be there already.

    mlxlm-cli stays behind: its `mlx_lm` would hide the one to measure against.
    """
    files = sorted(str(f) for f in wheels.glob("*.whl") if not f.name.startswith("mlxlm_cli-"))
    if not files:
        sys.exit(f"{wheels} holds no wheels: build them with `uv build --all-packages --wheel`.")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--no-compile", "--upgrade", "--target", str(target), *files], check=True)


def child_environment(target: Path | None) -> dict[str, str]:
    paths = [str(target)] if target else []
    paths += filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1"}
