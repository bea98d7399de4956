"""Runs one program in processes of mlxlm and of mlx-lm, in turn, and compares their figures.

The program is text that gets a side's name, then what else it is to be told, and prints
`RESULT` and its figures as JSON. Sides: `ours`; `peer`, mlx-lm as it is installed;
`peer+blas`, mlx-lm with the BLAS that mlxlm preloads on Linux CPUs, so that what remains
is the difference of the two programs and not of their BLAS; and any that a bench adds, with
a Python and a program of its own. Each round runs every side once, in another order than the
round before, so that a noisy machine is noisy for all. `BENCH_START` in the environment is
when the process was started, in seconds of `time.time()`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

Figures = dict[str, float]

SIDES = ("ours", "peer+blas", "peer")


@dataclass(frozen=True)
class Added:
    """A side of a bench's own: a Python, the program that it runs, and what that is told."""

    python: str
    program: str
    told: Sequence[object]


_FOLDERS = """
from importlib.util import find_spec
from pathlib import Path
for name in ("mlxlm_cache", "scipy_openblas32"):
    print(Path(find_spec(name).submodule_search_locations[0]).parent)
"""
_PRELOAD = """
import sys
folders = {folders!r}
sys.path[:0] = folders
from mlxlm_cache.device import preload_blas
found = preload_blas()
assert found.library, found
del sys.path[:len(folders)]
"""


def parser(description: str, *, sides: str = "ours,peer+blas") -> argparse.ArgumentParser:
    """Return a parser with the options that all of these benches have."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--ours", default=sys.executable, help="Python with mlxlm")
    made.add_argument("--peer", required=True, help="Python with mlx-lm")
    made.add_argument("--sides", default=sides, help=f"some of {','.join(SIDES)}")
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--json", type=Path, help="also write all figures here")
    return made


def compare(
    program: str,
    told: Sequence[object],
    options: argparse.Namespace,
    added: Mapping[str, Added] | None = None,
) -> dict[str, list[Figures]]:
    """Run all rounds; print medians, and ours divided by theirs; return all figures."""
    added = added or {}
    sides: list[str] = [*options.sides.split(","), *added]
    rounds: dict[str, list[Figures]] = {side: [] for side in sides}
    with TemporaryDirectory() as folder:
        if "peer+blas" in sides:
            _write_preload(Path(folder), options.ours)
        for number in range(options.rounds):
            for side in sides if number % 2 == 0 else reversed(sides):
                python = options.ours if side == "ours" else options.peer
                what = added.get(side, Added(python, program, told))
                rounds[side].append(_child(what, side, folder))
                print(number, side, rounds[side][-1], file=sys.stderr)
    others = [side for side in sides if side != "ours"]
    print(f"{'median of ' + str(options.rounds):<24}{'ours':>10}", end="")
    print("".join(f"{side:>12}{'ratio':>7}" for side in others))
    for figure in rounds["ours"][0]:
        ours = statistics.median(run[figure] for run in rounds["ours"])
        line = f"{figure:<24}{ours:>10.2f}"
        for side in others:
            if figure not in rounds[side][0]:
                line += f"{'-':>12}{'':>7}"
                continue
            theirs = statistics.median(run[figure] for run in rounds[side])
            line += f"{theirs:>12.2f}{ours / theirs:>7.2f}"
        print(line)
    if options.json:
        options.json.write_text(json.dumps(rounds, indent=1))
    return rounds


def _child(what: Added, side: str, folder: str) -> Figures:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment["BENCH_START"] = str(time.time())
    if side == "peer+blas":
        environment["PYTHONPATH"] = folder
    command = [what.python, "-c", what.program, side, *map(str, what.told)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{side} failed:\n{done.stderr}")
    said = [line.partition(" ") for line in done.stdout.splitlines()]
    figures: Figures = json.loads(next(text for name, _, text in said if name == "RESULT"))
    return figures


def _write_preload(folder: Path, python: str) -> None:
    """Write a `sitecustomize` that loads the BLAS before anything imports MLX."""
    done = subprocess.run([python, "-c", _FOLDERS], capture_output=True, text=True, check=True)
    text = _PRELOAD.format(folders=done.stdout.split("\n")[:-1])
    (folder / "sitecustomize.py").write_text(text)
