"""MLX on CUDA: right answers, then speed beside mlx-lm. See README.md.

python tools/bench/cuda --wheels DIR [--target DIR] [--model NAME] [--small] [--out FILE]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from compare import compare
from install import child_environment, install
from shapes import MODELS

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheels", type=Path, help="a folder of wheels to install first")
    parser.add_argument("--target", type=Path, help="where to; a temporary folder otherwise")
    parser.add_argument("--small", action="store_true", help="tiny shapes, to try the programs")
    parser.add_argument("--model", choices=MODELS, action="append", help="all by default")
    parser.add_argument("--skip", choices=("check", "measure"), action="append", default=[])
    parser.add_argument("--out", type=Path, help="write every figure here, as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        target = None
        if arguments.wheels:
            target = arguments.target or Path(scratch) / "site"
            install(arguments.wheels, target)
        environment = child_environment(target)
        if "check" not in arguments.skip:
            check(Path(scratch), environment, "cpu" if arguments.small else "gpu")
        if "measure" not in arguments.skip:
            rows = [
                row
                for model in arguments.model or MODELS
                for row in measure(environment, model, arguments.small)
            ]
            table(rows)
            if arguments.out:
                arguments.out.write_text(json.dumps(rows, indent=1))


def check(scratch: Path, environment: dict[str, str], device: str) -> None:
    files = {}
    for name in ("cpu", device):
        files[name] = scratch / f"{name}-{len(files)}.safetensors"
        subprocess.run(
            [sys.executable, HERE / "check.py", name, files[name]], check=True, env=environment
        )
    wrong = compare(scratch / "cpu-0.safetensors", files[device])
    if wrong:
        print("OUT OF BOUNDS", *wrong, sep="\n  ")
        sys.exit(1)
    print("all within bounds")


def measure(environment: dict[str, str], model: str, small: bool) -> list[dict[str, object]]:
    command = [sys.executable, str(HERE / "measure.py"), "--model", model]
    command += ["--small"] if small else []
    rows = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        for line in child.stdout:
            word, _, rest = line.partition(" ")
            if word == "ROW":
                rows.append(json.loads(rest))
            print(line, end="", flush=True)
    if child.returncode:
        sys.exit(f"measure.py failed with status {child.returncode}")
    return rows


def table(rows: list[dict[str, object]]) -> None:
    print(f"\n{'tokens/s, medians':<30}{'mlxlm':>10}{'mlx-lm':>10}{'ratio':>8}")
    for row in rows:
        ours, peer = float(str(row["mlxlm"])), float(str(row["mlx-lm"]))
        print(f"{row['name']!s:<30}{ours:>10.1f}{peer:>10.1f}{ours / peer:>8.2f}")


if __name__ == "__main__":
    main()
