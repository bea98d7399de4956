"""The README's table of what each package costs: installed size and import time.

python -m tools.footprint write     measure, and rewrite the table
python -m tools.footprint check     the table lists the packages there are
"""

import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.release.wheelhouse import wheel, write_pins
from tools.workspace import ROOT, folder, modules, packages

START, END = "<!-- footprint -->", "<!-- /footprint -->"
ROUNDS = 7
MEGABYTE = 10**6


def measure(package: str) -> str:
    """Install a package alone and return its row."""
    with TemporaryDirectory() as scratch:
        environment = Path(scratch) / "environment"
        python = environment / "bin" / "python"
        subprocess.run(["uv", "venv", "--quiet", str(environment)], check=True)
        pins = write_pins(Path(scratch))
        install = ["uv", "pip", "install", "--quiet", "--python", str(python)]
        target = f"{package}[cpu] @ {wheel(package).as_uri()}"
        # Copies: a linked file has blocks of the cache, not of this environment.
        subprocess.run([*install, "--constraint", str(pins), target], check=True)
        (site,) = environment.glob("lib/python*/site-packages")
        size = _bytes(site)
        own = sum(_bytes(site / module) for module in modules(folder(package)))
        count = sum(1 for _ in site.glob("*.dist-info"))
        module = modules(folder(package))[0]
        lazy = _milliseconds(python, f"import {module}")
        full = _milliseconds(python, f"import {module} as m; [getattr(m, n) for n in dir(m)]")
    sizes = f"{own / 1000:.0f} kB | {count} | {size / MEGABYTE:.0f} MB"
    return f"| {package} | {sizes} | {lazy:.0f} ms | {full:.0f} ms |"


def table() -> str:
    """Measure every package and return the table."""
    head = (
        "| package | its own code | installed with it | all together | import | every name used |"
    )
    rows = [head, "|---|--:|--:|--:|--:|--:|", *map(measure, packages())]
    return "\n".join([START, *rows, END])


def listed(readme: str) -> list[str]:
    """Return the packages that a README's table has."""
    block = readme.partition(START)[2].partition(END)[0]
    return re.findall(r"^\| ([a-z][a-z-]*-[a-z]+) \|", block, re.MULTILINE)


def _bytes(path: Path) -> int:
    files = (file for file in path.rglob("*") if file.is_file() and file.suffix != ".pyc")
    return sum(file.stat().st_size for file in files)


def _milliseconds(python: Path, statement: str) -> float:
    """Return the median time of a statement in a new process, less that of an empty one."""

    def run(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([python, "-c", code], check=True)
        return time.perf_counter() - start

    run(statement)  # writes the byte code
    pairs = [(run(statement), run("pass")) for _ in range(ROUNDS)]
    return 1000 * statistics.median(busy - idle for busy, idle in pairs)


def main() -> None:
    file = ROOT / "README.md"
    readme = file.read_text()
    match sys.argv[1:]:
        case ["write"]:
            before, _, rest = readme.partition(START)
            file.write_text(before + table() + rest.partition(END)[2])
        case ["check"] if listed(readme) != packages():
            raise SystemExit(
                f"README.md's table lists {listed(readme)}, the tree has {packages()}: "
                "uv run python -m tools.footprint write"
            )
        case ["check"]:
            pass
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
