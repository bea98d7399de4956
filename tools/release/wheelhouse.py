"""Wheels: of this tree, and rebuilt from any release, once per checkout."""

import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from shutil import rmtree

from tools.release.history import Release, sources
from tools.workspace import ROOT, folder, packages

WHEELS = ROOT / "build" / "wheels"


@cache
def wheel(package: str, release: Release | None = None) -> Path:
    """Build a package's wheel and return its path."""
    out = WHEELS / (release.commit[:12] if release else "tree") / package
    if release is None:
        rmtree(out, ignore_errors=True)
    if not any(out.glob("*.whl")):
        source = sources(release) if release else folder(package)
        command = ["uv", "build", "--quiet", "--wheel", "--no-sources", "--out-dir", str(out)]
        subprocess.run([*command, str(source)], cwd=ROOT, check=True)
    return next(out.glob("*.whl"))


def write_pins(target: Path, held: Mapping[str, Release] | None = None) -> Path:
    """Write constraints that take every package from this tree, or from its held release.

    They keep an index's packages of the same names out of an environment.
    """
    built = {name: wheel(name, (held or {}).get(name)) for name in packages()}
    file = target / "workspace.txt"
    file.write_text("".join(f"{name} @ {path.as_uri()}\n" for name, path in built.items()))
    return file
