"""Wheels: of this tree, and rebuilt from any release, once per state of the sources.

Several processes may ask for the same wheel at once: each builds in a folder of its own, and
the first to finish gives it its name.
"""

import hashlib
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.release.history import Release, sources
from tools.workspace import ROOT, folder, packages, settle

WHEELS = ROOT / "build" / "wheels"
BUILT_FROM = ("pyproject.toml", "README.md", "src")


@cache
def wheel(package: str, release: Release | None = None) -> Path:
    """Build a package's wheel, unless these sources have one, and return its path."""
    source = sources(release) if release else folder(package)
    out = WHEELS / package / fingerprint(source)
    if not out.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=out.parent) as scratch:
            made = Path(scratch) / "wheel"
            command = ["uv", "build", "--quiet", "--wheel", "--no-sources", "--out-dir", str(made)]
            subprocess.run([*command, str(source)], cwd=ROOT, check=True)
            settle(made, out)
    (built,) = out.glob("*.whl")
    return built


def fingerprint(source: Path) -> str:
    """Return a digest of the names and contents of the files that a wheel is built from."""
    digest = hashlib.sha256()
    listed = [source / name for name in BUILT_FROM]
    files = [file for part in listed for file in (part, *part.rglob("*")) if file.is_file()]
    for file in sorted(files):
        if "__pycache__" not in file.parts:
            content = file.read_bytes()
            digest.update(f"{file.relative_to(source).as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()[:16]


def write_pins(target: Path, held: Mapping[str, Release] | None = None) -> Path:
    """Write constraints that take every package from this tree, or from its held release.

    They keep an index's packages of the same names out of an environment.
    """
    built = {name: wheel(name, (held or {}).get(name)) for name in packages()}
    file = target / "workspace.txt"
    file.write_text("".join(f"{name} @ {path.as_uri()}\n" for name, path in built.items()))
    return file
