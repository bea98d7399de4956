from importlib.metadata import version
from typing import Any


def test_doctor_tells_versions_backend_and_blas_on_stdout(command: Any) -> None:
    done = command("mlxlm", "doctor")
    assert (done.returncode, done.stderr) == (0, "")
    rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert rows["mlxlm-cache"] == version("mlxlm-cache")
    assert rows["backend"] in ("cpu", "cuda", "metal")
    assert {"blas", "python", "memory", "mlx"} <= set(rows)
    assert ("float32" if rows["backend"] == "cpu" else "checkpoint") in rows["weights"]
    assert command("mlx_lm", "--version", "-v").stdout.startswith("mlxlm-cache")
