"""A family file states what is particular to it; what two share belongs to the layers."""

from collections import defaultdict
from pathlib import Path

import mlxlm_models

PACKAGE = Path(mlxlm_models.__file__).parent
RUN = 12


def test_no_two_family_files_share_a_run_of_lines() -> None:
    where: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for path in sorted((PACKAGE / "families").glob("*.py")):
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        lines = [line for line in lines if line and not line.startswith(("import ", "from "))]
        for start in range(len(lines) - RUN + 1):
            where[tuple(lines[start : start + RUN])].add(path.name)
    assert {run[0]: files for run, files in where.items() if len(files) > 1} == {}


def test_families_and_layers_stay_small() -> None:
    count = 0
    for folder in ("families", "layers"):
        for path in (PACKAGE / folder).glob("*.py"):
            lines = len(path.read_text(encoding="utf-8").splitlines())
            assert lines <= 320, path.name
            count += lines
    assert count < 12_000
